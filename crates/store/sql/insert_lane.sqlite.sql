-- Makes a lane on first use, and its number is found by read_lane.
insert into lanes (queue_id, kind)
select queue_id, ?3 from queues where namespace = ?1 and name = ?2
on conflict do nothing
