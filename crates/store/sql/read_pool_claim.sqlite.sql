-- Reads the claim of a run.
select claim_no, pool_no, run_id, fingerprint, machines, wanted, priority, owner, runtime_ms, state, opened_at, deadline,
    ready_at, ended_at, reason, detail
from pool_claims where pool_no = ?1 and run_id = ?2
