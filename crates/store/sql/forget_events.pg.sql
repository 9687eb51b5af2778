-- Deletes batches of events that are too old, or have too many behind them. Positions that were left out are no events.
with counted as (
    select first, at, coalesce(sum(case when body = ''::bytea then 0 else last - first + 1 end) over (
        order by first desc rows between unbounded preceding and 1 preceding
    ), 0) as behind
    from events
)
delete from events where first = any (array(
    select first from counted
    where at < coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) - $2::bigint
        or behind >= $3::bigint
    order by first limit $4::bigint
))
returning first
