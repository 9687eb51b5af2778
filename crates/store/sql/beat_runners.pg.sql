-- Notes signs of life of runners that are not gone. They are locked in the order of their identifiers.
with alive as materialized (
    select runner_id from runners where runner_id = any($2::uuid[]) and state <> 6
    order by runner_id
    for update
)
update runners set seen_at = $1::bigint
where runner_id = any(array(select runner_id from alive))
returning runner_id, state, epoch, claim_no, run_id, deadline, registered_at, cause
