-- Finds held builds of which nothing was heard since $2 ms.
select builds.run_id
from builds
cross join lateral (
    select live.epoch, live.worker_id, live.claimed_at, live.started_at from live
    where live.run_id = builds.run_id and live.state in (1, 2) limit 1
) live
left join build_progress on build_progress.run_id = builds.run_id
left join machines on machines.run_id = builds.run_id and machines.epoch = live.epoch
left join worker_live on worker_live.worker_id = live.worker_id
where builds.outcome is null
  and greatest(live.claimed_at, live.started_at, build_progress.log_at, machines.seen_at, worker_live.seen_at)
      < coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) - $2::bigint
order by builds.run_id limit $3::bigint
