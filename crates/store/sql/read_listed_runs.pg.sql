-- What a list shows of runs. Each is looked up, however large the planner believes the tables to be.
select runs.run_id, runs.lane_id, coalesce(live.state, ended.state) as state, coalesce(live.epoch, ended.epoch) as epoch,
    runs.priority, coalesce(live.failures, ended.failures) as failures, coalesce(live.losses, ended.losses) as losses,
    runs.submitted_at, coalesce(live.due_at, runs.due_at) as due_at, runs.key, runs.affinity, runs.retry_of, runs.options, runs.trace,
    coalesce(live.worker_id, ended.worker_id) as worker_id, coalesce(live.claimed_at, ended.claimed_at) as claimed_at,
    coalesce(live.started_at, ended.started_at) as started_at, live.timeout_at, live.lease_until, live.cancel_by,
    live.place, ended.ended_at, ended.reason,
    case when live.run_id is null then ended.error else (
        select attempts.error from attempts where attempts.run_id = runs.run_id order by attempts.epoch & 4294967295 desc limit 1
    ) end as error,
    case when octet_length(ended.output) <= $2::bigint then ended.output end as small_output, octet_length(ended.output)::bigint as output_bytes,
    workers.name as worker_name, worker_live.lease_until as worker_until, worker_live.ttl_ms, worker_live.seen_at,
    step.position as step_position, waits.kind as waits_kind, waits.name as waits_name, waits.due_at as waits_due,
    files.count as files, files.bytes as file_bytes
from unnest(array(select unnest($1::uuid[]))) as given(run_id)
cross join lateral (select * from runs where runs.run_id = given.run_id limit 1) as runs
left join lateral (select * from live where live.run_id = given.run_id limit 1) as live on true
left join lateral (select * from ended where ended.run_id = given.run_id limit 1) as ended on true
left join lateral (select * from workers where workers.worker_id = coalesce(live.worker_id, ended.worker_id) limit 1) as workers on true
left join lateral (select * from worker_live where worker_live.worker_id = live.worker_id and live.place = 3 limit 1) as worker_live on true
left join lateral (
    select steps.position from steps where steps.run_id = given.run_id order by steps.position desc limit 1
) as step on true
left join lateral (
    select latest.kind, latest.name, latest.due_at
    from (
        select steps.kind, steps.name, steps.due_at, steps.state, steps.position
        from steps where steps.run_id = given.run_id and live.state = 3 order by steps.position desc limit 100
    ) as latest
    where latest.state = 0
    order by latest.position desc limit 1
) as waits on true
left join lateral (
    select count(*) as count, sum(artifacts.size)::bigint as bytes
    from artifacts
    where artifacts.run_id = given.run_id and artifacts.kind = 2 and artifacts.size is not null and artifacts.doomed_at is null
      and ended.state = 4
) as files on true
where live.run_id is not null or ended.run_id is not null
