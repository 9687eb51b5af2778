-- The audit log, oldest first, newer than ?1.
select id, at, actor, action, subject, detail, namespace, address, request_id from audit where id > ?1 order by id limit ?2
