-- What a claim has to know of a worker.
select status, unfit is not null, max_concurrent, active, answered_no, answered_bits from worker_live where worker_id = ?1
