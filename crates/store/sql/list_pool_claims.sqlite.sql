-- Lists claims, newest first.
select claim_no, pool_no, run_id, fingerprint, machines, wanted, priority, owner, runtime_ms, state, opened_at, deadline,
    ready_at, ended_at, reason, detail
from pool_claims
where claim_no < ?1 and (?2 is null or pool_no = ?2) and (?3 is null or state = ?3)
order by claim_no desc
limit ?4
