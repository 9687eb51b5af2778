-- Counts completed runs, of the newest $6; -1 are those that are not wanted.
select (case
        when ($1::integer[] is null or runs.lane_id = any($1)) and ($2::uuid[] is null or found.worker_id = any($2))
          and ($5::text is null or position($5 in lower(found.error)) > 0) and ($7::smallint is null or found.reason = $7)
        then found.state + 2 else -1 end)::bigint as phase, count(*)
from (
    select ended.run_id, ended.state, ended.worker_id, ended.error, ended.reason
    from ended
    where ended.run_id < $3::uuid and ended.run_id >= $4::uuid and ended.state = 4
    order by ended.run_id desc limit $6::bigint
) as found
left join lateral (select runs.lane_id from runs where runs.run_id = found.run_id and $1::integer[] is not null limit 1) as runs on true
group by 1
