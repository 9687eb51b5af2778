-- Lists the claims of a pool that wait, oldest first.
select claim_no, pool_no, run_id, fingerprint, machines, wanted, priority, owner, runtime_ms, state, opened_at, deadline,
    ready_at, ended_at, reason, detail
from pool_claims where pool_no = $1::bigint and state = 0
order by claim_no
