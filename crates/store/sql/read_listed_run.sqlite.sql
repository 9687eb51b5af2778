-- What a list shows of a run besides its record.
select iif(length(ended.output) <= ?2, ended.output, null), length(ended.output), workers.name, worker_live.lease_until, worker_live.ttl_ms,
    worker_live.seen_at, (select position from steps where steps.run_id = runs.run_id order by position desc limit 1),
    waits.kind, waits.name, waits.due_at,
    (select count(*) from artifacts
        where artifacts.run_id = runs.run_id and kind = 2 and size is not null and doomed_at is null and ended.state = 4),
    (select sum(size) from artifacts
        where artifacts.run_id = runs.run_id and kind = 2 and size is not null and doomed_at is null and ended.state = 4)
from runs
left join live on live.run_id = runs.run_id
left join ended on ended.run_id = runs.run_id
left join workers on workers.worker_id = coalesce(live.worker_id, ended.worker_id)
left join worker_live on worker_live.worker_id = live.worker_id and live.place = 3
left join (
    select kind, name, due_at
    from (select kind, name, due_at, state, position from steps where steps.run_id = ?1 order by position desc limit 100)
    where state = 0
    order by position desc limit 1
) as waits on live.state = 3
where runs.run_id = ?1
