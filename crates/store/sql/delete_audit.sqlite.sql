-- Deletes lines of the audit log from before ?1. Looks at the ?2 oldest only, so that finding nothing is cheap.
delete from audit where id in (select id from (select id, at from audit order by id limit ?2) where at < ?1)
