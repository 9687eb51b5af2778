-- Takes a run's relatives away: another run has them now, or its parent has ended.
update live set parent = null, parent_position = null, has_children = has_children and ?2 where run_id = ?1
