-- Brings a worker online.
insert into worker_live (worker_id, status, max_concurrent, ttl_ms, seen_at, lease_until) values (?1, 0, ?2, ?3, ?4, ?5)
