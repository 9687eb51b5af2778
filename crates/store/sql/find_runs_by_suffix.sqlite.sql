-- Finds runs older than ?1 and no older than ?2 whose identifier ends with ?3, among the newest ?4, newest first.
select run_id
from (
    select run_id
    from runs
    where run_id < ?1 and run_id >= ?2
    order by run_id desc
    limit ?4
)
where lower(substr(hex(run_id), -length(?3))) = ?3
limit ?5
