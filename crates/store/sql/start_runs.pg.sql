-- Marks held runs as started. Looked up and compared as in complete_runs.
with held as materialized (select * from unnest($2::uuid[], $3::bigint[]) as held(run_id, epoch))
update live set state = 2, started_at = coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)
where live.run_id = any(array(select held.run_id from held))
  and case when live.state = 1 then (live.run_id, live.epoch) in (select held.run_id, held.epoch from held) end
returning live.run_id, live.epoch, live.cancel_by is not null as cancelling
