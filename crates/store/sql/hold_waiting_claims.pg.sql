-- Locks claims, oldest first, and finds those of them that still wait once it has them.
select claim_no from pool_claims
where claim_no = any($1::bigint[]) and state = 0
order by claim_no
for update
