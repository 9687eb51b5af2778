-- Reads what keeps workers from taking runs.
select worker_id, status, unfit is not null as is_unfit, max_concurrent - active as room,
    answered_no, answered_bits
from worker_live
where worker_id = any($1::uuid[])
