-- Takes a run that has ended out of the live ones.
delete from live where run_id = ?1 and epoch = ?2 returning parent, parent_position, has_children
