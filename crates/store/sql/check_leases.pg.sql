-- Finds which leases are lost. Those that are held and not started have been started: their worker speaks of them.
-- Rows are looked up as in complete_runs.
with given as materialized (
    select * from unnest($2::uuid[], $3::uuid[], $4::bigint[]) with ordinality
        as given(worker_id, run_id, epoch, ordinal)
),
started as (
    update live set state = 2, started_at = coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)
    where live.run_id = any(array(select given.run_id from given))
      and case when live.state = 1 then
            (live.run_id, live.epoch, live.worker_id) in (select given.run_id, given.epoch, given.worker_id from given)
          end
)
select given.ordinal
from given
left join lateral (
    select live.run_id from live
    where live.run_id = given.run_id and live.epoch = given.epoch and live.worker_id = given.worker_id
      and case when live.state in (1, 2) then true end
    limit 1
) held on true
where held.run_id is null
