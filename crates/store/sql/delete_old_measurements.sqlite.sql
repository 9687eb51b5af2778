-- Drops measurements of a build up to a number.
delete from measurements where run_id = ?1 and number <= ?2
