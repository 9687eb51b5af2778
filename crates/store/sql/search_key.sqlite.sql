-- As search_runs, with the key ?4.
select runs.run_id
from runs indexed by runs_by_key
left join live on live.run_id = runs.run_id
left join ended on ended.run_id = runs.run_id
where runs.key = ?4 and ?5 is not null and runs.run_id < ?8 and runs.run_id >= ?9
  and (?1 is null or runs.lane_id in (select value from json_each(?1)))
