-- Writes how far a bulk operation has come, unless somebody else has since it was read. One that is to stop, and whose runs
-- nobody acts on now, is due at once, also where whoever writes did not know that.
update bulk_operations set
    version = version + 1, due_at = case when stopping = 1 and length(?5) = 0 then ?16 else ?3 end, run_cursor = ?4, planned = ?5, matched = ?6, done = ?7, skipped = ?8, failed = ?9,
    errors = ?10, tokens = ?11, rate_at = ?12, troubles = ?13, waits_for = ?14, state = ?15,
    ended_at = case when ?15 = 0 then null else ?16 end
where bulk_id = ?1 and version = ?2 and state = 0
returning bulk_id, namespace, action, filter, reason, created_by, created_at, rate, state, stopping, ended_at, version, due_at,
    run_cursor, planned, matched, done, skipped, failed, errors, tokens, rate_at, troubles, waits_for
