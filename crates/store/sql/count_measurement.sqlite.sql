-- Takes the number of a measurement of a live lease.
update build_progress set measured = measured + 1
where run_id = ?1 and exists (
    select 1 from live where live.run_id = ?1 and live.epoch = ?2 and live.state in (1, 2))
returning measured
