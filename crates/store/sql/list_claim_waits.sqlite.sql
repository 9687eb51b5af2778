-- Lists how long the last claims of a pool that were filled have waited, newest first.
select ready_at - opened_at from pool_claims
where pool_no = ?1 and ready_at is not null
order by claim_no desc
limit ?2
