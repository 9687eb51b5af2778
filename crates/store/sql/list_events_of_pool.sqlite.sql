-- Lists moves of the runners of a pool, newest first.
select event_no, at, pool_no, runner_id, claim_no, was, became, cause, detail
from runner_events
where pool_no = ?2 and event_no < ?1 and (?3 is null or runner_id = ?3) and (?4 is null or claim_no = ?4)
order by event_no desc
limit ?5
