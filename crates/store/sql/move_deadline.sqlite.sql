-- Gives a run's deadline to the one that goes on in its place.
update deadlines set run_id = ?2 where run_id = ?1
