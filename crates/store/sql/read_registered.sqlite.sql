-- The worker that registered with this instance or identifier before.
select worker_id, registered_at from workers
where instance = ?1 or worker_id = ?2
order by instance is ?1 desc
limit 1
