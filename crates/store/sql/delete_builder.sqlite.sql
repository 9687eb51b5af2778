-- Deletes the builder whose last incarnation this was.
delete from builders where worker_id = ?1
