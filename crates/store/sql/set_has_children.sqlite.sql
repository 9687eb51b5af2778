-- Notes that a run has started others.
update live set has_children = 1 where run_id = ?1
