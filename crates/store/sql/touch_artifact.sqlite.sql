-- Bytes of a file that is no lease's (?1) still come, at the time ?2: it is not old yet.
update artifacts set created_at = ?2 where artifact_id = ?1 and kind <> 2 and size is null and doomed_at is null
