-- Makes a file a build's own.
update artifacts set uses = uses + 1, run_id = coalesce(run_id, ?2) where artifact_id = ?1
