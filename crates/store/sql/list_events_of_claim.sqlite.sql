-- Lists moves of runners that are about a claim, newest first.
select event_no, at, pool_no, runner_id, claim_no, was, became, cause, detail
from runner_events
where claim_no = ?4 and event_no < ?1 and (?2 is null or pool_no = ?2) and (?3 is null or runner_id = ?3)
order by event_no desc
limit ?5
