-- Lists what became of a schedule's fires, newest first.
select fires.fire_no, fires.fire_at, fires.at, fires.what, fires.run_id, coalesce(ended.state, live.state) as state,
    fires.missed, coalesce(ended.claimed_at, live.claimed_at) as claimed_at, ended.ended_at
from fires
left join live on live.run_id = fires.run_id
left join ended on ended.run_id = fires.run_id
where fires.schedule_no = $1::bigint and fires.fire_no < $2::bigint
order by fires.fire_no desc
limit $3::bigint
