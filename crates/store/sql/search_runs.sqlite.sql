-- Searches runs in any state, newest first.
select runs.run_id
from runs
left join live on live.run_id = runs.run_id
left join ended on ended.run_id = runs.run_id
where runs.run_id < ?8 and runs.run_id >= ?9
  and (?1 is null or runs.lane_id in (select value from json_each(?1)))
  and ?4 is null and ?5 is null
