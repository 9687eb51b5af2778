-- Everything about a run but its payloads. A live run's error is that of its newest attempt.
select runs.run_id, runs.lane_id, coalesce(live.state, ended.state) as state, coalesce(live.epoch, ended.epoch) as epoch,
    runs.priority, coalesce(live.failures, ended.failures) as failures, coalesce(live.losses, ended.losses) as losses,
    runs.submitted_at, coalesce(live.due_at, runs.due_at) as due_at, runs.key, runs.affinity, runs.retry_of, runs.options, runs.trace,
    coalesce(live.worker_id, ended.worker_id) as worker_id, coalesce(live.claimed_at, ended.claimed_at) as claimed_at,
    coalesce(live.started_at, ended.started_at) as started_at, live.timeout_at, live.lease_until, live.cancel_by,
    live.place is 2 as blocked, ended.ended_at, ended.reason,
    iif(ended.run_id is null,
        (select error from attempts where attempts.run_id = runs.run_id order by attempts.epoch & 4294967295 desc limit 1), ended.error) as error
from runs
left join live on live.run_id = runs.run_id
left join ended on ended.run_id = runs.run_id
where runs.run_id = ?1
