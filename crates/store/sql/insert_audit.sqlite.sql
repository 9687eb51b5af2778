-- Writes a line of the audit log, and numbers it.
insert into audit (at, actor, action, subject, detail, namespace, address, request_id) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
returning id, at
