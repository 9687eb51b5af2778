-- What can be said of the run ?1, which has lost its worker once too often: when that was last heard of, and the step that was begun last, of the last hundred.
select lanes.is_workflow, worker_live.seen_at, step.name, step.position, step.is_begun
from live
join lanes on lanes.lane_id = live.lane_id
left join worker_live on worker_live.worker_id = live.worker_id
left join (
    select name, position, (state = 0 and due_at is null) as is_begun
    from (select name, position, state, due_at from steps where run_id = ?1 and kind = 0 order by position desc limit 100)
    order by is_begun desc, position desc limit 1
) step
where live.run_id = ?1
