-- The end of each search among runs that have ended: which of them are wanted, newest first.
  and ($1::integer[] is null or runs.lane_id = any($1))
  and ($2::smallint[] is null or ended.state + 2 = any($2))
  and ($3::uuid[] is null or ended.worker_id = any($3))
  and $4::text is null and $5::text is null
  and ($6::text is null or position($6 in lower(ended.error)) > 0)
  and ($7::smallint is null or ended.reason = $7)
  and $11::bigint is not null
order by ended.run_id desc limit $10::bigint
