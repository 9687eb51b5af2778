-- Takes ended leases off their workers' counts, workers in the order of their identifiers.
with busy as materialized (
    select worker_live.worker_id, given.ended, given.failed
    from unnest($1::uuid[], $2::integer[], $3::integer[]) as given(worker_id, ended, failed)
    join worker_live using (worker_id)
    order by worker_live.worker_id
    for update of worker_live
)
update worker_live set active = worker_live.active - busy.ended, failed = worker_live.failed + busy.failed
from busy where worker_live.worker_id = busy.worker_id
