-- How many runs of each lane of a queue wait for their key, and when the oldest became due. ?2 are looked at.
select found.lane_id, count(*), min(found.due_at)
from (select lane_id, due_at from live where place = 2 and queue_id = ?1 limit ?2) as found
group by found.lane_id
