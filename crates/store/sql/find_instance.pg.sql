-- Finds a worker by its instance or identifier.
select worker_id, registered_at from workers where instance = $2::text or worker_id = $1::uuid order by instance is null limit 1
