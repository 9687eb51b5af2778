-- Leases of a run up to this number were sent.
update open_traces set told = ?2 where run_id = ?1 and told < ?2
