-- Runs that nobody holds, older than ?1, newest first.
select run_id
from live
where run_id < ?1
    and state = ?2
    and (?3 is null or worker_id = ?3)
    and (?4 is null or key = ?4)
    and run_id >= ?6
    and (?7 is null or lane_id in (select value from json_each(?7)))
order by run_id desc
limit ?5
