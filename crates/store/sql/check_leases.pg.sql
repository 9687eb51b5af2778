-- Finds which leases are lost. Those that are held and not started have been started: their worker speaks of them.
with given as materialized (
    select * from unnest($2::uuid[], $3::uuid[], $4::integer[]) with ordinality
        as given(worker_id, run_id, epoch, ordinal)
),
started as (
    update live set state = 2, started_at = coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)
    from given
    where live.run_id = given.run_id and live.epoch = given.epoch and live.worker_id = given.worker_id and case when live.state = 1 then true end
)
select given.ordinal
from given
where not exists (
    select 1 from live
    where live.run_id = given.run_id and live.epoch = given.epoch and live.worker_id = given.worker_id
      and case when live.state in (1, 2) then true end
)
