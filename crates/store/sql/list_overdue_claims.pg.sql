-- Finds claims whose time is over, and those that wait for a pool that is being deleted.
select claim_no from (
    select claim_no from pool_claims where state in (0, 1) and deadline < $1::bigint
    union
    select claim_no from pool_claims join pools using (pool_no) where state = 0 and pools.deleting_at is not null
) overdue
order by claim_no
limit $2::bigint
