-- When a lease was claimed, if it is the live one.
select claimed_at from live where run_id = ?1 and epoch = ?2 and state in (1, 2)
