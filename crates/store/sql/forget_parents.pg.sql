-- Takes their parents from runs: they have ended, and hear of nothing.
update live set parent = null, parent_position = null where run_id = any($1::uuid[])
