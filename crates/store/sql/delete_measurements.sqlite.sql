-- Deletes measurements of a build, up to ?2.
delete from measurements where run_id = ?1 and number in (select number from measurements where run_id = ?1 limit ?2)
