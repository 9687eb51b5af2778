-- Notes a sign of life of the machine of a live lease, and how far it says it is.
with clock as materialized (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now),
held as materialized (
    select 1 from live where live.run_id = $2::uuid and live.epoch = $3::bigint and live.state in (1, 2) for key share
)
insert into machines (run_id, epoch, ready_at, seen_at, progress)
select $2, $3, case when $4::boolean then clock.now end, clock.now, $5::double precision from held cross join clock
on conflict (run_id, epoch) do update set
    ready_at = coalesce(machines.ready_at, excluded.ready_at), seen_at = excluded.seen_at,
    progress = coalesce(excluded.progress, machines.progress)
returning 1
