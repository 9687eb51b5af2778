-- Moves the signals that nobody has taken, and the request to cancel, to the run that goes on.
with untaken as materialized (
    select inbox.number, row_number() over (order by inbox.number) as place
    from inbox
    where inbox.run_id = $1::uuid and (inbox.kind = 2 or inbox.kind = 0 and (
        select 1 from steps where steps.run_id = $1 and steps.message = inbox.number and steps.message is not null limit 1) is null)
)
update inbox set run_id = $2::uuid, number = untaken.place
from untaken
where inbox.run_id = $1 and inbox.number = untaken.number
returning inbox.number
