-- Makes a sleeping run claimable.
update live set place = ?3, level = ?4, order_at = ?5, due_at = ?6 where run_id = ?1 and epoch = ?2 and state = 3
