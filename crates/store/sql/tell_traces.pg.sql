-- Leases up to these numbers were sent; in the order of the identifiers, so that two servers do not wait for each other.
update open_traces set told = held.number
from (
    select given.run_id, given.number
    from unnest($1::uuid[], $2::integer[]) as given(run_id, number)
    join open_traces using (run_id)
    where open_traces.told < given.number
    order by given.run_id
    for update of open_traces
) held
where open_traces.run_id = held.run_id
