-- Counts an ended build for its builder.
update builders set succeeded = succeeded + iif(?2, 1, 0), failed = failed + iif(?2, 0, 1) where worker_id = ?1
