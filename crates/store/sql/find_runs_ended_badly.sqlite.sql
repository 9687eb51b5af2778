-- Failed or cancelled runs, older than ?1, newest first.
select ended.run_id
from ended indexed by ended_badly
join runs on runs.run_id = ended.run_id
where ended.state <> 4
    and ended.run_id < ?1
    and ended.state = ?2
    and (?3 is null or ended.worker_id = ?3)
    and (?4 is null or runs.key = ?4)
    and ended.run_id >= ?6
    and (?7 is null or runs.lane_id in (select value from json_each(?7)))
order by ended.run_id desc
limit ?5
