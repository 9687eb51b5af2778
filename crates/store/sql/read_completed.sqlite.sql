-- What is kept of a run that is completed, if the lease is the current one.
select queue_id, worker_id, failures, losses, claimed_at, started_at, key, affinity, parent, parent_position, has_children,
    lane_id
from live
where run_id = ?1 and epoch = ?2 and state in (1, 2)
