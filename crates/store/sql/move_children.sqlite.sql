-- Gives the children of a run to the one that goes on in its place, which has not started them anywhere.
update live set parent = ?2, parent_position = null where parent = ?1
