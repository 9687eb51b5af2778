-- Opens a claim, unless there is one for its run, its pool takes none, or as many wait as may. No more than that are counted.
insert into pool_claims (pool_no, run_id, fingerprint, machines, wanted, priority, owner, runtime_ms, state, opened_at, deadline)
select pools.pool_no, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0, ?1, ?1 + ?10
from pools where pools.pool_no = ?2 and pools.deleting_at is null
    and (select count(*) from (select 1 from pool_claims where pool_no = ?2 and state = 0 limit ?11) as waiting) < ?11
on conflict (pool_no, run_id) do nothing
returning claim_no, pool_no, run_id, fingerprint, machines, wanted, priority, owner, runtime_ms, state, opened_at, deadline,
    ready_at, ended_at, reason, detail
