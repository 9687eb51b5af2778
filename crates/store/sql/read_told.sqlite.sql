-- Whether a worker was told again of a lease that it holds.
select told from live where run_id = ?1 and epoch = ?2
