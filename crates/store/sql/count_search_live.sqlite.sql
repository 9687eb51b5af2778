-- Counts runs that have not ended by what they are shown as, of the newest ?6; -1 are those that are not wanted.
select phase, count(*)
from (
    select case
        when (?1 is null or live.lane_id in (select value from json_each(?1)))
          and (?2 is null or hex(live.worker_id) in (select value from json_each(?2)))
        then case
        when live.state = 0 then case when live.due_at > ?5 then 1 else 0 end
        when live.state = 3 then 5
        when live.cancel_by is not null then 4
        else live.state + 1
    end else -1 end as phase
    from live
    where live.run_id < ?3 and live.run_id >= ?4
    order by live.run_id desc limit ?6
)
group by phase
