-- Deletes runs that ended long ago. None of them was submitted later, which keeps the scan short.
with old as materialized (
    select run_id from ended where run_id < $1::uuid and ended_at < $2::bigint
    order by run_id limit $3::bigint
    for update skip locked
),
gone as (delete from ended using old where ended.run_id = old.run_id),
tried as (delete from attempts using old where attempts.run_id = old.run_id)
delete from runs using old where runs.run_id = old.run_id
returning 1
