-- Locks runs that have ended: retention leaves those for its next pass.
select run_id from ended where run_id = any($1::uuid[]) order by run_id for no key update
