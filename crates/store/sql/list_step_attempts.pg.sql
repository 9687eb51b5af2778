-- Attempts of a workflow's steps beyond a place: those that failed or were lost, and the last ones, which are in the steps.
(
    select position, attempt, name, epoch, worker_id, state, error, code, begun_at, ended_at
    from step_attempts
    where run_id = $1::uuid and ($2::integer is null or position = $2) and (position, attempt) > ($3::integer, $4::integer)
    order by position, attempt limit $5::bigint
)
union all
(
    select position, earlier + attempts, name, epoch, worker_id, state, null, null, begun_at, ended_at
    from steps
    where run_id = $1 and ($2 is null or position = $2) and position >= $3 and (position, earlier + attempts) > ($3, $4)
      and kind = 0 and (state = 1 or state = 0 and due_at is null)
    order by position limit $5
)
order by position, attempt limit $5
