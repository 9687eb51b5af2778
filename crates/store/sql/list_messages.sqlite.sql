-- Messages beyond those seen: at most ?3, and none before which there are ?4 bytes of payloads.
select number, kind, name, payload, state, error, position, at from (
    select *, sum(length(payload)) over (order by number rows between unbounded preceding and 1 preceding) as bytes_before
    from inbox where run_id = ?1 and number > ?2 order by number limit ?3
)
where coalesce(bytes_before, 0) < ?4
order by number
