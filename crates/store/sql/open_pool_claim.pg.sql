-- Opens a claim, unless there is one for its run, its pool takes none, or as many wait as may. No more than that are counted.
insert into pool_claims (pool_no, run_id, fingerprint, machines, wanted, priority, owner, runtime_ms, state, opened_at, deadline)
select pools.pool_no, $3::text, $4::bytea, $5::integer, $6::text, $7::smallint, $8::text, $9::bigint, 0, $1::bigint, $1 + $10::bigint
from pools where pools.pool_no = $2::bigint and pools.deleting_at is null
    and (select count(*) from (select 1 from pool_claims where pool_no = $2 and state = 0 limit $11::bigint) as waiting) < $11::bigint
on conflict (pool_no, run_id) do nothing
returning claim_no, pool_no, run_id, fingerprint, machines, wanted, priority, owner, runtime_ms, state, opened_at, deadline,
    ready_at, ended_at, reason, detail
