-- Lists the runners of a claim.
select runner_id from runners where claim_no = $1::bigint order by runner_id
