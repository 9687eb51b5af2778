-- Notes which relatives of a run still have to hear of its end.
update outbox set parent = ?2, parent_position = null, has_children = ?3 where run_id = ?1
