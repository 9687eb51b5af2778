-- Completes held runs: out of live, into ended; their workers' counts; whose caches are warm now; whose relatives are to hear
-- of it. Returns those that were done, and whether runs of the same key may wait for their end. The rows are looked up by an array of unknown length (so that
-- the prepared plan is as good as one made anew), and the epochs compared out of the planner's sight: when it last counted
-- while the table was empty, any join would make it read all of it. No run is given twice: a stale lease beside the current one
-- would be joined to it.
with clock as materialized (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now),
done as materialized (
    select * from unnest($2::uuid[], $3::bigint[], $4::bytea[]) with ordinality
        as done(run_id, epoch, output, ordinal)
),
gone as (
    delete from live
    where live.run_id = any(array(select done.run_id from done))
      and case when live.state in (1, 2) then (live.run_id, live.epoch) in (select done.run_id, done.epoch from done) end
    returning live.run_id, live.epoch, live.failures, live.losses, live.claimed_at, live.started_at, live.worker_id,
        live.queue_id, live.lane_id, live.key, live.affinity, live.parent, live.parent_position, live.has_children
),
noted as (
    insert into ended (run_id, state, epoch, failures, losses, ended_at, claimed_at, started_at, lease_end, worker_id, output)
    select gone.run_id, 4, gone.epoch, gone.failures, gone.losses, clock.now, gone.claimed_at, gone.started_at, 0,
        gone.worker_id, done.output
    from gone join done using (run_id) cross join clock
),
told as (
    insert into outbox (run_id, parent, parent_position, has_children)
    select gone.run_id, gone.parent, gone.parent_position, gone.has_children
    from gone where gone.parent is not null or gone.has_children
),
shares as (select worker_id, count(*) as runs from gone group by worker_id),
busy as materialized (
    select worker_live.worker_id, shares.runs from shares join worker_live using (worker_id)
    order by worker_live.worker_id
    for update of worker_live
),
counted as (
    update worker_live set active = worker_live.active - busy.runs, completed = worker_live.completed + busy.runs
    from busy where worker_live.worker_id = busy.worker_id
),
warmed as (
    insert into affinity (queue_id, key, worker_name, at)
    select distinct on (gone.queue_id, gone.affinity) gone.queue_id, gone.affinity, workers.name, clock.now
    from gone join done using (run_id) join workers using (worker_id) cross join clock
    where gone.affinity is not null
    order by gone.queue_id, gone.affinity, done.ordinal desc
    on conflict (queue_id, key) do update set worker_name = excluded.worker_name, at = excluded.at
)
select gone.run_id, gone.epoch, gone.queue_id, gone.key, gone.lane_id, clock.now - gone.claimed_at as held_ms,
    gone.key is not null and (
        exists (select 1 from queues where queues.queue_id = gone.queue_id and queues.key_limit is not null)
        or exists (
            select 1 from live where live.queue_id = gone.queue_id and live.key = gone.key and live.place = 2
        )
    ) as others_may_wait,
    gone.parent is not null or gone.has_children as has_relatives
from gone cross join clock
