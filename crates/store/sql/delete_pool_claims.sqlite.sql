-- Forgets claims that ended long ago.
delete from pool_claims where claim_no in (
    select claim_no from pool_claims where state in (2, 3) and ended_at < ?1 order by ended_at limit ?2
)
