-- Says which claims of a worker were answered.
update worker_live set answered_no = ?2, answered_bits = ?3 where worker_id = ?1
