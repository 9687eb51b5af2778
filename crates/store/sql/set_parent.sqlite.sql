-- Notes who started a run.
update live set parent = ?2, parent_position = ?3 where run_id = ?1
