-- Deletes what a worker said about itself.
delete from workers where worker_id = ?1
