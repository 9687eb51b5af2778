-- When a run was submitted, and for when.
select submitted_at, due_at from runs where run_id = ?1
