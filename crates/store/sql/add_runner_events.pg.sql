-- Keeps moves of runners, in their order.
insert into runner_events (at, pool_no, runner_id, claim_no, was, became, cause, detail)
select $1::bigint, given.pool_no, given.runner_id, given.claim_no, given.was, given.became, given.cause, given.detail
from unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::smallint[], $6::smallint[], $7::smallint[], $8::text[]) with ordinality
    as given(pool_no, runner_id, claim_no, was, became, cause, detail, ordinal)
order by given.ordinal
