-- Asks a bulk operation to stop. Where no server acts on its runs now, it is due at once.
with clock as materialized (select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now)
update bulk_operations set
    stopping = true, due_at = case when length(planned) = 0 then least(due_at, clock.now) else due_at end
from clock
where bulk_id = $2::uuid and state = 0
