-- Signals that a workflow has not taken, oldest first.
select inbox.name, inbox.at
from inbox
where inbox.run_id = $1::uuid and inbox.kind = 0
    and not exists (select 1 from steps where steps.run_id = inbox.run_id and steps.message = inbox.number)
order by inbox.number limit $2::bigint
