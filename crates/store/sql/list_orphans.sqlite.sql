-- Runs that workers hold who are offline.
select run_id from live
where place = 3 and worker_id in (select worker_id from worker_live where status = 2 and active > 0)
order by run_id
limit ?1
