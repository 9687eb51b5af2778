-- Reads the end of a log and locks it, and the lease with it, if it is the live one.
with held as materialized (
    select 1 from live where live.run_id = $2::uuid and live.epoch = $3::bigint and live.state in (1, 2) for key share
)
select log_lines, log_bytes, log_full, log_epoch, log_taken, $3 is null or exists (select 1 from held) as is_held,
    coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
from build_progress
where run_id = $2
for update
