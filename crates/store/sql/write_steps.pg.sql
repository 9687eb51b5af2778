-- Remembers completed steps at positions where nothing is remembered yet, under leases that are live, and starts the runs that were
-- only assigned. Returns those that were written; why others were not is looked up for them alone. The lock that others may share is
-- enough: whoever ends a lease needs the row for himself. Rows are looked up as in complete_runs.
with clock as materialized (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now),
given as materialized (
    select * from unnest($2::uuid[], $3::bigint[], $4::integer[], $5::smallint[], $6::text[], $7::bytea[], $8::bigint[], $9::bigint[])
        with ordinality as given(run_id, epoch, position, kind, name, output, message, took_ms, ordinal)
),
held as materialized (
    select live.run_id, live.epoch, live.state, live.failures, live.worker_id
    from live
    where live.run_id = any(array(select given.run_id from given))
      and case when live.state in (1, 2) then (live.run_id, live.epoch) in (select given.run_id, given.epoch from given) end
    order by live.run_id
    for key share
),
started as (
    update live set state = 2, started_at = (select now from clock)
    where live.run_id = any(array(select held.run_id from held where held.state = 1)) and case when live.state = 1 then true end
),
written as (
    insert into steps (run_id, position, kind, state, attempts, epoch, failures, begun_at, ended_at, message, worker_id, name, output)
    select given.run_id, given.position, given.kind, 1, 1, held.epoch, held.failures, clock.now - given.took_ms, clock.now, given.message,
        held.worker_id, given.name, given.output
    from given join held on held.run_id = given.run_id and held.epoch = given.epoch cross join clock
    order by given.run_id, given.ordinal
    on conflict do nothing
    returning run_id, position, begun_at, ended_at
)
select * from written
