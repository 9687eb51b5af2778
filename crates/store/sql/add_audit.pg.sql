-- Writes lines of the audit log, and numbers them.
insert into audit (at, actor, action, subject, detail, namespace, address, request_id)
select clock.now, given.actor, given.action, given.subject, given.detail, given.namespace, given.address, given.request_id
from (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now) clock
cross join unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[]) with ordinality
    as given(actor, action, subject, detail, namespace, address, request_id, ordinal)
order by given.ordinal
returning id, at
