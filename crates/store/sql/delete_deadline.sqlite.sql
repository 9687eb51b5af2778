-- Forgets a deadline.
delete from deadlines where run_id = ?1
