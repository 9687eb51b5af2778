-- Forgets ends that all relatives have heard of, and notes who is left to hear of others.
with heard as (delete from outbox where run_id = any($1::uuid[]))
update outbox set parent = given.parent, parent_position = null, has_children = given.has_children
from unnest($2::uuid[], $3::uuid[], $4::boolean[]) as given(run_id, parent, has_children)
where outbox.run_id = given.run_id
