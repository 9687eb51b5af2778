-- Lists claims, newest first.
select claim_no, pool_no, run_id, fingerprint, machines, wanted, priority, owner, runtime_ms, state, opened_at, deadline,
    ready_at, ended_at, reason, detail
from pool_claims
where claim_no < $1::bigint and ($2::bigint is null or pool_no = $2) and ($3::smallint is null or state = $3)
order by claim_no desc
limit $4::bigint
