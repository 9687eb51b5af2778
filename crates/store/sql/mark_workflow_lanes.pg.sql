-- Says that runs of these lanes are workflows.
update lanes set is_workflow = true where lane_id = any($1::integer[]) and not is_workflow
