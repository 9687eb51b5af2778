-- Batches with events after a position, oldest first.
select first, last, body from events
where first > coalesce((select max(earlier.first) from events as earlier where earlier.first <= $1::bigint + 1), 0) - 1
order by first limit $2::bigint
