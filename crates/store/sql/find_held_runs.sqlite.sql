-- Runs that workers hold, older than ?1, newest first. They are few among the live ones, so all of them are looked at.
select run_id
from live indexed by live_held
where place = 3
    and run_id < ?1
    and state = ?2
    and (?3 is null or worker_id = ?3)
    and (?4 is null or key = ?4)
    and run_id >= ?6
    and (?7 is null or lane_id in (select value from json_each(?7)))
order by run_id desc
limit ?5
