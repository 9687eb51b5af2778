-- What the spans of a run say, if they are still to be sent.
select runs.run_id, runs.trace, open.told, runs.lane_id, lanes.is_workflow, runs.priority, runs.submitted_at, runs.due_at,
    runs.retry_of, coalesce(live.state, ended.state) as state, coalesce(live.epoch, ended.epoch) as epoch, ended.reason,
    ended.ended_at, ended.error, ended.worker_id, ended.claimed_at, ended.started_at, ended.lease_end
from open_traces as open
join runs on runs.run_id = open.run_id
join lanes on lanes.lane_id = runs.lane_id
left join live on live.run_id = open.run_id
left join ended on ended.run_id = open.run_id
where open.run_id = ?1 and runs.trace is not null and (live.run_id is not null or ended.run_id is not null)
