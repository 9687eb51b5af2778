-- Finds held builds of which nothing was heard since ?1.
select builds.run_id
from builds indexed by builds_open
cross join live on live.run_id = builds.run_id
left join build_progress on build_progress.run_id = builds.run_id
left join machines on machines.run_id = builds.run_id and machines.epoch = live.epoch
left join worker_live on worker_live.worker_id = live.worker_id
where builds.outcome is null and live.state in (1, 2)
    and max(coalesce(live.claimed_at, 0), coalesce(live.started_at, 0), coalesce(build_progress.log_at, 0),
        coalesce(machines.seen_at, 0), coalesce(worker_live.seen_at, 0)) < ?1
order by builds.run_id limit ?2
