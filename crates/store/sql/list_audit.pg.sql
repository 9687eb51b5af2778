-- Lists the audit log, newest first.
select id, at, actor, action, subject, detail, namespace, address, request_id from audit
where $1::bigint is null or id < $1
order by id desc limit $2::bigint
