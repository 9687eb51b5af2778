-- Notes that a worker is told of leases again.
update live set told = 1
where live.run_id = any($1::uuid[]) and live.place = 3
  and (live.run_id, live.epoch) in (select given.run_id, given.epoch from unnest($1, $2::bigint[]) as given(run_id, epoch))
returning live.run_id
