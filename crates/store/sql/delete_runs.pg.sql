-- Deletes runs that ended long ago. None of them was submitted later, which keeps the scan short.
with old as materialized (
    select run_id from ended where run_id < $1::uuid and ended_at < $2::bigint
    order by run_id limit $3::bigint
    for update skip locked
),
gone as (delete from ended where run_id = any(array(select run_id from old))),
tried as (delete from attempts where run_id = any(array(select run_id from old)))
delete from runs where run_id = any(array(select run_id from old))
returning 1
