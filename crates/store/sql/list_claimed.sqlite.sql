-- The runs that a worker holds from the claim with this number, or, without a number, those that it has not started
-- although it got them at ?3 or before.
select live.run_id, live.lane_id, live.epoch, live.failures, live.priority, runs.submitted_at, live.timeout_at, live.key, runs.input,
    live.claimed_at - live.due_at, runs.trace
from live join runs on runs.run_id = live.run_id
where live.place = 3 and live.worker_id = ?1 and (live.claim_no = ?2 or (?2 is null and live.state = 1 and live.claimed_at <= ?3))
order by live.run_id
