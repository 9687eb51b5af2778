-- Finds and locks leases that nobody asked for again.
select live.run_id, live.epoch from live
where live.run_id = any($1::uuid[]) and live.told = 0
  and (live.run_id, live.epoch) in (select given.run_id, given.epoch from unnest($1, $2::bigint[]) as given(run_id, epoch))
order by live.run_id
for update
