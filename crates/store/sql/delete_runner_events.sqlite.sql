-- Forgets moves of runners of long ago.
delete from runner_events where event_no in (
    select event_no from runner_events where at < ?1 order by at limit ?2
)
