-- Forgets pools that are being deleted and have neither machines nor claims left; their past goes by itself.
delete from pools where pool_no in (
    select pool_no from pools
    where deleting_at is not null
      and not exists (select 1 from runners where runners.pool_no = pools.pool_no and state <> 6)
      and not exists (select 1 from pool_claims where pool_claims.pool_no = pools.pool_no and state in (0, 1))
    order by pool_no limit $1::bigint for update skip locked
)
returning pool_no
