-- Gives a run's relatives to the one that goes on in its place.
update live set (parent, parent_position, has_children) = (select parent, parent_position, has_children from live where run_id = ?1)
where run_id = ?2
