-- Counts runs that have not ended by lane and by what they are shown as, of the newest ?3.
select lane_id, phase, count(*)
from (
    select live.lane_id, case
        when live.state = 0 then case when live.due_at > ?2 then 1 else 0 end
        when live.state = 3 then 5
        when live.cancel_by is not null then 4
        else live.state + 1
    end as phase
    from live
    order by live.run_id desc limit ?3
)
where lane_id in (select value from json_each(?1))
group by lane_id, phase
