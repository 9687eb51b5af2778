-- What events say of runs. Each is looked up, however large the planner believes the tables to be.
select runs.run_id, runs.lane_id, coalesce(live.state, ended.state) as state, coalesce(live.epoch, ended.epoch) as epoch, ended.reason,
    coalesce(live.worker_id, ended.worker_id) as worker_id, ended.ended_at, live.cancel_by is not null as cancelling
from unnest(array(select unnest($1::uuid[]))) as given(run_id)
cross join lateral (select run_id, lane_id from runs where runs.run_id = given.run_id limit 1) as runs
left join lateral (select * from live where live.run_id = given.run_id limit 1) as live on true
left join lateral (
    select run_id, state, epoch, reason, worker_id, ended_at from ended where ended.run_id = given.run_id limit 1
) as ended on true
where live.run_id is not null or ended.run_id is not null
