-- Lists the idle runners of a pool. Those that were used last go first, so that those that are not needed get old.
select runner_id, pool_no, order_id, state, epoch, claim_no, run_id, deadline, registered_at, cause, since, ordered_at, machine_id,
    kind, usage, cpu, memory_mib, seen_at, uses, detail, token_hash
from runners where pool_no = $1::bigint and state = 1
order by since desc, runner_id
limit $2::bigint
