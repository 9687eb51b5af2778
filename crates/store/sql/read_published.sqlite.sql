-- What a workflow shows.
select payload, at from published where run_id = ?1
