-- Messages beyond those seen.
select number, kind, name, payload, state, error, position, at from inbox where run_id = ?1 and number > ?2 order by number limit ?3
