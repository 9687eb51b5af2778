-- Deletes batches of events that are too old, or too many behind the last.
delete from events where first in (
    select first from events where at < ?1 or last <= (select last from event_clock) - ?2 order by first limit ?3
)
