-- Who is to hear of the end of a live run.
select parent, parent_position, has_children from live where run_id = ?1
