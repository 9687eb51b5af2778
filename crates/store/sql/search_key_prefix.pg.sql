-- As search_runs, with a key from $4 on and below $5. They are in the order of keys, so no more than $12 are looked at.
select runs.run_id
from (
    select runs.run_id, runs.lane_id
    from runs
    where runs.key is not null and runs.key collate "C" >= $4::text and runs.key collate "C" < $5::text
    order by runs.key collate "C" limit $12::bigint
) as runs
left join lateral (select * from live where live.run_id = runs.run_id limit 1) as live on true
left join lateral (select * from ended where ended.run_id = runs.run_id limit 1) as ended on true
where runs.run_id < $8::uuid and runs.run_id >= $9::uuid
  and ($1::integer[] is null or runs.lane_id = any($1))
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
