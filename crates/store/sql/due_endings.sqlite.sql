-- Hands terminating runners to the caller, who is to have their machines ended, and to nobody else for a while.
update runners set deadline = ?1 + ?2
where runner_id in (select runner_id from runners where state = 5 and deadline <= ?1 order by deadline limit ?3)
returning runner_id, pool_no, order_id, state, epoch, claim_no, run_id, deadline, registered_at, cause, since, ordered_at, machine_id,
    kind, usage, cpu, memory_mib, seen_at, uses, detail, token_hash
