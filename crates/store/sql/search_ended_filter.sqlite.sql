-- The end of each search among runs that have ended: which of them are wanted, newest first.
  and (?1 is null or runs.lane_id in (select value from json_each(?1)))
  and (?2 is null or ended.state + 2 in (select value from json_each(?2)))
  and (?3 is null or hex(ended.worker_id) in (select value from json_each(?3)))
  and ?4 is null and ?5 is null
  and (?6 is null or instr(lower(ended.error), ?6) > 0)
  and (?7 is null or ended.reason = ?7)
  and ?11 is not null
order by ended.run_id desc limit ?10
