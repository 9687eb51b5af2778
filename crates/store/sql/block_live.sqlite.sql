-- Sets a run aside whose key has no room: ?2 is the place of blocked ones.
update live set place = ?2 where run_id = ?1 and place = 0
