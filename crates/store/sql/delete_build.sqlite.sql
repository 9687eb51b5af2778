-- Deletes what was submitted of a build; returns the files that it used.
delete from builds where run_id = ?1 returning source_id, certs_id
