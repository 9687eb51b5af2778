-- Counts failed and cancelled runs, of the newest ?6; -1 are those that are not wanted.
select case
        when (?1 is null or (select runs.lane_id from runs where runs.run_id = found.run_id) in (select value from json_each(?1)))
          and (?2 is null or hex(found.worker_id) in (select value from json_each(?2)))
          and (?5 is null or instr(lower(found.error), ?5) > 0) and (?7 is null or found.reason = ?7)
        then found.state + 2 else -1 end as phase, count(*)
from (
    select run_id, state, worker_id, error, reason
    from ended indexed by ended_badly
    where run_id < ?3 and run_id >= ?4 and state <> 4
    order by run_id desc limit ?6
) as found
group by phase
