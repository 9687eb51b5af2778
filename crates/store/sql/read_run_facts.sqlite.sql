-- What events say of a run.
select runs.run_id, runs.lane_id, coalesce(live.state, ended.state) as state, coalesce(live.epoch, ended.epoch) as epoch, ended.reason,
    coalesce(live.worker_id, ended.worker_id) as worker_id, ended.ended_at, live.cancel_by is not null as cancelling
from runs
left join live on live.run_id = runs.run_id
left join ended on ended.run_id = runs.run_id
where runs.run_id = ?1 and (live.run_id is not null or ended.run_id is not null)
