-- Where a search ends that looks at $3 runs that have ended.
select run_id from ended where run_id < $1::uuid and run_id >= $2::uuid order by run_id desc offset $3::bigint limit 1
