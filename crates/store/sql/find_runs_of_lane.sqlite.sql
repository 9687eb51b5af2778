-- As find_runs, of one lane.
select runs.run_id
from runs
left join live on live.run_id = runs.run_id
left join ended on ended.run_id = runs.run_id
where runs.run_id < ?1
    and (?2 is null or coalesce(live.state, ended.state) = ?2)
    and (?3 is null or coalesce(live.worker_id, ended.worker_id) = ?3)
    and (?4 is null or runs.key = ?4)
    and runs.run_id >= ?6
    and runs.lane_id = ?7
order by runs.run_id desc
limit ?5
