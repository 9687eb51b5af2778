-- Finds claims that were filled and have no runners left. The first condition is that of the index.
select claim_no from pool_claims
where state in (0, 1) and state = 1
  and not exists (select 1 from runners where runners.claim_no = pool_claims.claim_no)
order by claim_no
limit $1::bigint
