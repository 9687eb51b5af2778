-- Gives up the results of a build that is deleted.
update artifacts set uses = 0, doomed_at = coalesce(doomed_at, ?2) where run_id = ?1 and kind = 2
