-- Reads the runners of a claim and locks them.
select runner_id, pool_no, order_id, state, epoch, claim_no, run_id, deadline, registered_at, cause, since, ordered_at, machine_id,
    kind, usage, cpu, memory_mib, seen_at, uses, detail, token_hash
from runners where claim_no = ?1
order by runner_id
