-- As search_runs, of the lane ?12.
select runs.run_id
from runs
left join live on live.run_id = runs.run_id
left join ended on ended.run_id = runs.run_id
where runs.lane_id = ?12 and runs.run_id < ?8 and runs.run_id >= ?9
  and ?1 is not null
  and ?4 is null and ?5 is null
