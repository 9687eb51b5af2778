-- The position of the last event.
select last from event_clock
