-- What the spans of runs say, as far as they are still to be sent. Each is looked up, however large the planner believes the
-- tables to be.
select runs.run_id, runs.trace, open.told, runs.lane_id, lanes.is_workflow, runs.priority, runs.submitted_at, runs.due_at,
    runs.retry_of, coalesce(live.state, ended.state) as state, coalesce(live.epoch, ended.epoch) as epoch, ended.reason,
    ended.ended_at, ended.error, ended.worker_id, ended.claimed_at, ended.started_at, ended.lease_end
from unnest(array(select unnest($1::uuid[]))) as given(run_id)
cross join lateral (select * from open_traces where open_traces.run_id = given.run_id limit 1) as open
cross join lateral (select * from runs where runs.run_id = given.run_id limit 1) as runs
cross join lateral (select is_workflow from lanes where lanes.lane_id = runs.lane_id limit 1) as lanes
left join lateral (select * from live where live.run_id = given.run_id limit 1) as live on true
left join lateral (select * from ended where ended.run_id = given.run_id limit 1) as ended on true
where runs.trace is not null and (live.run_id is not null or ended.run_id is not null)
