-- Deletes the machines of a build.
delete from machines where run_id = ?1
