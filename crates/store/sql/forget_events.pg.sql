-- Deletes batches of events that are too old, or too many behind the last.
delete from events where first = any (array(
    select first from events
    where at < coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) - $2::bigint
        or last <= (select last from event_clock) - $3::bigint
    order by first limit $4::bigint
))
returning first
