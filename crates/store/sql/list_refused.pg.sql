-- The refused writes of a run that are on record, oldest first; what is only counted has epoch 0.
select epoch, verb, position, current_epoch, worker_id, name, at, last_at, times, bytes
from refused_writes where run_id = $1::uuid
order by at, epoch, verb, position
