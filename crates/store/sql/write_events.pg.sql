-- Writes a batch of events behind all others. Whoever comes next waits for the lock, so positions become visible in
-- their order.
with clock as (
    update event_clock set last = last + $2::bigint returning last
)
insert into events (first, last, at, body)
select clock.last - $2 + 1, clock.last,
    coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint), $3::bytea
from clock
returning last
