-- Lists the audit log, oldest first, after this line.
select id, at, actor, action, subject, detail, namespace, address, request_id from audit
where id > $1::bigint
order by id limit $2::bigint
