-- Notes that claims are answered with nothing. Returns those that had not been answered before, and were not changed by anybody meanwhile.
with open as materialized (
    select worker_live.worker_id, given.number, given.ordinal
    from unnest($1::uuid[], $2::bigint[]) with ordinality as given(worker_id, number, ordinal) join worker_live using (worker_id)
    where not is_answered(worker_live.answered_no, worker_live.answered_bits, given.number)
    order by worker_live.worker_id
    for update of worker_live
)
update worker_live set
    answered_no = greatest(worker_live.answered_no, open.number),
    answered_bits = answered_with(worker_live.answered_no, worker_live.answered_bits, open.number)
from open
where worker_live.worker_id = open.worker_id
returning open.ordinal
