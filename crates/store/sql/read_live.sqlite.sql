-- A live run with its options.
select live.run_id, live.queue_id, live.lane_id, live.priority, live.level, live.order_at, live.state, live.epoch, live.failures,
    live.losses, live.due_at, live.cancel_by, live.worker_id, live.claimed_at, live.started_at, live.key, runs.options
from live join runs on runs.run_id = live.run_id
where live.run_id = ?1
