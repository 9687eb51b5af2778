-- Lists what became of the last fires of each of these schedules, newest first.
select given.schedule_no, last.fire_no, last.fire_at, last.at, last.what, last.run_id,
    coalesce(ended.state, live.state) as state, last.missed, coalesce(ended.claimed_at, live.claimed_at) as claimed_at,
    ended.ended_at
from unnest($1::bigint[]) with ordinality as given(schedule_no, ordinal)
cross join lateral (
    select * from fires where fires.schedule_no = given.schedule_no order by fires.fire_no desc limit $2::bigint
) last
left join live on live.run_id = last.run_id
left join ended on ended.run_id = last.run_id
order by given.ordinal, last.fire_no desc
