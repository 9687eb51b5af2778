-- Lists runners by their identifiers, after the one where the page before ended.
select runner_id, pool_no, order_id, state, epoch, claim_no, run_id, deadline, registered_at, cause, since, ordered_at, machine_id,
    kind, usage, cpu, memory_mib, seen_at, uses, detail, token_hash
from runners
where ($1::uuid is null or runner_id > $1)
  and ($2::bigint is null or pool_no = $2) and ($3::smallint is null or state = $3) and ($4::bigint is null or claim_no = $4)
  and ($6::smallint is null or state <> $6)
order by runner_id
limit $5::bigint
