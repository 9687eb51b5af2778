-- Writes down runners whose machines are to be created.
insert into runners (runner_id, pool_no, order_id, state, epoch, deadline, since, ordered_at, kind, usage, cpu, memory_mib)
select given.runner_id, $2::bigint, $3::uuid, 0, 0, $4::bigint, $1::bigint, $1, '', $5::smallint, $6::integer, $7::bigint
from unnest($8::uuid[]) as given(runner_id)
