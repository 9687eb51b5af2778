-- Says that runs of a lane are workflows.
update lanes set is_workflow = 1 where lane_id = ?1
