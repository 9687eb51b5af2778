-- Writes down a runner whose machine is to be created.
insert into runners (runner_id, pool_no, order_id, state, epoch, deadline, since, ordered_at, kind, usage, cpu, memory_mib)
values (?8, ?2, ?3, 0, 0, ?4, ?1, ?1, '', ?5, ?6, ?7)
