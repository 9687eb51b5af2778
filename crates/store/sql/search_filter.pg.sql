-- The end of each search among runs in any state: which of them are wanted, newest first.
  and (live.run_id is not null or ended.run_id is not null)
  and ($2::smallint[] is null or case
        when live.run_id is null then ended.state + 2
        when live.state = 0 then case when live.due_at > $11::bigint then 1 else 0 end
        when live.state = 3 then 5
        when live.cancel_by is not null then 4
        else live.state + 1
    end = any($2))
  and ($3::uuid[] is null or coalesce(live.worker_id, ended.worker_id) = any($3))
  and ($6::text is null or position($6 in lower(ended.error)) > 0)
  and ($7::smallint is null or ended.reason = $7)
order by runs.run_id desc limit $10::bigint
