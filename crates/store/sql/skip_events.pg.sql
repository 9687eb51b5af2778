-- Leaves out all positions that were given out before, also those that a restored database does not know of.
with now as (
    select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as at
), before as (
    select last from event_clock for update
), clock as (
    update event_clock set last = greatest(before.last + 1, now.at * $2::bigint)
    from before, now
    returning event_clock.last
)
insert into events (first, last, at, body)
select before.last + 1, clock.last, now.at, ''::bytea from before, clock, now
returning last
