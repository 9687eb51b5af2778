-- Counts runs that a worker was handed, and says which of its claims were answered.
update worker_live set active = active + ?2, answered_no = ?3, answered_bits = ?4 where worker_id = ?1
