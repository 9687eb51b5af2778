-- The end of each search among runs that have not ended: which of them are wanted, newest first.
  and ($1::integer[] is null or live.lane_id = any($1))
  and ($2::smallint[] is null or case
        when live.state = 0 then case when live.due_at > $11::bigint then 1 else 0 end
        when live.state = 3 then 5
        when live.cancel_by is not null then 4
        else live.state + 1
    end = any($2))
  and ($3::uuid[] is null or live.worker_id = any($3))
  and $4::text is null and $5::text is null and $6::text is null and $7::smallint is null
order by live.run_id desc limit $10::bigint
