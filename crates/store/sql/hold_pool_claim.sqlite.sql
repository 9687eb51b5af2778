-- Reads a claim and locks it.
select claim_no, pool_no, run_id, fingerprint, machines, wanted, priority, owner, runtime_ms, state, opened_at, deadline,
    ready_at, ended_at, reason, detail
from pool_claims where claim_no = ?1
