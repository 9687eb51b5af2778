-- The run that goes on in the place of another.
select next from continued where run_id = ?1
