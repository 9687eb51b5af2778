-- Finds runners that a claim holds which has ended, or is forgotten.
select runners.runner_id, runners.claim_no
from runners left join pool_claims on pool_claims.claim_no = runners.claim_no
where runners.state in (2, 3) and coalesce(pool_claims.state, 3) in (2, 3)
order by runners.runner_id
limit $1::bigint
