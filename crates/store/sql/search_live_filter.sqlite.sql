-- The end of each search among runs that have not ended: which of them are wanted, newest first.
  and (?1 is null or live.lane_id in (select value from json_each(?1)))
  and (?2 is null or case
        when live.state = 0 then case when live.due_at > ?11 then 1 else 0 end
        when live.state = 3 then 5
        when live.cancel_by is not null then 4
        else live.state + 1
    end in (select value from json_each(?2)))
  and (?3 is null or hex(live.worker_id) in (select value from json_each(?3)))
  and ?4 is null and ?5 is null and ?6 is null and ?7 is null
order by live.run_id desc limit ?10
