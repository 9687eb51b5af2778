-- Keeps a measurement of a live lease, and drops the oldest of its build beyond $7.
with held as materialized (
    select 1 from live where live.run_id = $2::uuid and live.epoch = $3::bigint and live.state in (1, 2) for key share
),
counted as (
    update build_progress set measured = build_progress.measured + 1
    where build_progress.run_id = $2 and exists (select 1 from held)
    returning build_progress.measured
),
gone as (delete from measurements where run_id = $2 and number <= (select counted.measured from counted) - $7::bigint)
insert into measurements (run_id, number, at, cpu, memory, memory_mb)
select $2, counted.measured, coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint),
    $4::double precision, $5::double precision, $6::double precision
from counted
returning 1
