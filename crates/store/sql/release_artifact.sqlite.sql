-- One build less uses this file.
update artifacts set uses = uses - 1 where artifact_id = ?1
