-- Lists moves of all runners, newest first.
select event_no, at, pool_no, runner_id, claim_no, was, became, cause, detail
from runner_events
where event_no < ?1
order by event_no desc
limit ?2
