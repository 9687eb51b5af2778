-- As search_runs, with a key from ?4 on and below ?5. They are in the order of keys, so no more than ?12 are looked at.
select runs.run_id
from (
    select run_id, lane_id
    from runs indexed by runs_by_key
    where key is not null and key >= ?4 and key < ?5
    order by key limit ?12
) as runs
left join live on live.run_id = runs.run_id
left join ended on ended.run_id = runs.run_id
where runs.run_id < ?8 and runs.run_id >= ?9
  and (?1 is null or runs.lane_id in (select value from json_each(?1)))
