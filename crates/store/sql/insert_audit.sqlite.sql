-- Writes a line of the audit log.
insert into audit (at, actor, action, subject, detail, namespace) values (?1, ?2, ?3, ?4, ?5, ?6)
