-- Moves a message to the run that goes on in the place of another.
update inbox set run_id = ?3, number = ?4 where run_id = ?1 and number = ?2
