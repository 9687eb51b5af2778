-- The signals that nobody has taken, and the request to cancel.
select number from inbox
where run_id = ?1 and (kind = 2 or kind = 0 and not exists (
    select 1 from steps where steps.run_id = ?1 and steps.message = inbox.number))
order by number
