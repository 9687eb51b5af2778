-- What can be said of runs that have lost their worker once too often: when it was last heard of, and the step that was begun last, of the last hundred.
select given.run_id, lanes.is_workflow, worker_live.seen_at, step.name, step.position, step.is_begun
from unnest($1::uuid[]) as given(run_id)
join live on live.run_id = given.run_id
join lanes on lanes.lane_id = live.lane_id
left join worker_live on worker_live.worker_id = live.worker_id
left join lateral (
    select latest.name, latest.position, (latest.state = 0 and latest.due_at is null) as is_begun
    from (
        select steps.name, steps.position, steps.state, steps.due_at
        from steps where steps.run_id = given.run_id and steps.kind = 0
        order by steps.position desc limit 100
    ) latest
    order by (latest.state = 0 and latest.due_at is null) desc, latest.position desc limit 1
) step on true
