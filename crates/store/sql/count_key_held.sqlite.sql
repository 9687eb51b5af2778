-- How many runs of a key are held.
select count(*) from live where queue_id = ?1 and key = ?2 and place = 3
