-- Locks what was submitted, so that one server at a time notes something about these runs. Nobody else locks it. Returns those that are
-- still there.
select run_id from runs where run_id = any($1::uuid[]) order by run_id for no key update
