-- Lists moves of runners, newest first.
select event_no, at, pool_no, runner_id, claim_no, was, became, cause, detail
from runner_events
where event_no < $1::bigint and ($2::bigint is null or pool_no = $2) and ($3::uuid is null or runner_id = $3)
  and ($4::bigint is null or claim_no = $4)
order by event_no desc
limit $5::bigint
