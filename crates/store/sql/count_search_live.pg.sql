-- Counts runs that have not ended by what they are shown as, of the newest $6; -1 are those that are not wanted.
select found.phase::bigint, count(*)
from (
    select case
        when ($1::integer[] is null or live.lane_id = any($1)) and ($2::uuid[] is null or live.worker_id = any($2))
        then case
        when live.state = 0 then case when live.due_at > $5::bigint then 1 else 0 end
        when live.state = 3 then 5
        when live.cancel_by is not null then 4
        else live.state + 1
    end else -1 end as phase
    from live
    where live.run_id < $3::uuid and live.run_id >= $4::uuid
    order by live.run_id desc limit $6::bigint
) as found
group by found.phase
