-- Reads which claims of a worker were answered.
select answered_no, answered_bits from worker_live where worker_id = ?1
