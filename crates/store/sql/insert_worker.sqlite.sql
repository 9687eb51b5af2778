-- Keeps what a worker said when it registered.
insert into workers (worker_id, instance, namespace, name, info, registered_at, key_id) values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
