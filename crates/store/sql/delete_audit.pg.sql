-- Deletes old lines of the audit log.
delete from audit where id in (select id from audit where at < $1::bigint order by id limit $2::bigint)
returning 1
