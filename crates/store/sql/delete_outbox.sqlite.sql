-- The relatives of a run have heard of its end.
delete from outbox where run_id = ?1
