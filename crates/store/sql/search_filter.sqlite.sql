-- The end of each search among runs in any state: which of them are wanted, newest first.
  and (live.run_id is not null or ended.run_id is not null)
  and (?2 is null or case
        when live.run_id is null then ended.state + 2
        when live.state = 0 then case when live.due_at > ?11 then 1 else 0 end
        when live.state = 3 then 5
        when live.cancel_by is not null then 4
        else live.state + 1
    end in (select value from json_each(?2)))
  and (?3 is null or hex(coalesce(live.worker_id, ended.worker_id)) in (select value from json_each(?3)))
  and (?6 is null or instr(lower(ended.error), ?6) > 0)
  and (?7 is null or ended.reason = ?7)
order by runs.run_id desc limit ?10
