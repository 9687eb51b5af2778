-- The runs that a worker got before a time and still holds, without those it knows of: ?3 is a JSON list of [run in hex, epoch].
select run_id, epoch from live
where place = 3 and worker_id = ?1 and claimed_at < ?2
  and (run_id, epoch) not in (select unhex(value ->> 0), value ->> 1 from json_each(?3))
order by run_id limit ?4
