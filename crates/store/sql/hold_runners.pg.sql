-- Reads runners and locks them, in the order of their identifiers so that two verbs do not wait for each other in a circle.
select runner_id, pool_no, order_id, state, epoch, claim_no, run_id, deadline, registered_at, cause, since, ordered_at, machine_id,
    kind, usage, cpu, memory_mib, seen_at, uses, detail, token_hash
from runners where runner_id = any($1::uuid[])
order by runner_id
for update
