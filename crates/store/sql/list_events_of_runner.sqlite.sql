-- Lists moves of a runner, newest first.
select event_no, at, pool_no, runner_id, claim_no, was, became, cause, detail
from runner_events
where runner_id = ?3 and event_no < ?1 and (?2 is null or pool_no = ?2) and (?4 is null or claim_no = ?4)
order by event_no desc
limit ?5
