-- Who is still to hear of these ends, now that the relatives' live rows are locked.
select run_id, parent, parent_position, has_children from outbox where run_id = any($1::uuid[]) order by run_id for update
