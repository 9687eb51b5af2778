-- When runs were submitted, and for when.
select run_id, submitted_at, due_at from runs where run_id = any($1::uuid[])
