-- Notes which worker finished a run with this affinity key.
insert into affinity (queue_id, key, worker_name, at)
select ?1, ?2, name, ?4 from workers where worker_id = ?3
on conflict (queue_id, key) do update set worker_name = excluded.worker_name, at = excluded.at
