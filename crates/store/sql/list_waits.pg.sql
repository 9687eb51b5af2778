-- What a workflow waits for: steps (kind 0) that are tried again, and children (kind 3) whose end (a message of kind 1) has not come.
select steps.kind, steps.name, steps.attempts, steps.due_at, steps.child, steps.error
from steps
where steps.run_id = $1::uuid and steps.state = 0
    and (
        steps.kind = 0 and steps.due_at is not null
        or steps.kind = 3 and not exists (
            select 1 from inbox where inbox.run_id = steps.run_id and inbox.kind = 1 and inbox.position = steps.position
        )
    )
order by steps.position limit $2::bigint
