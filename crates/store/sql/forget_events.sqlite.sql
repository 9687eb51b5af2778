-- Deletes batches of events that are too old, or have too many behind them. Positions that were left out are no events.
delete from events where first in (
    select first from (
        select first, at, coalesce(sum(case when length(body) = 0 then 0 else last - first + 1 end) over (
            order by first desc rows between unbounded preceding and 1 preceding
        ), 0) as behind
        from events
    )
    where at < ?1 or behind >= ?2
    order by first limit ?3
)
