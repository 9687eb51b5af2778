-- Reads an order, and whether a runner still waits for a machine of it.
select order_id, pool_no, machines, usage, types, ordered_at, ask_at, asked, closed_at, error,
    exists (
        select 1 from runners
        where runners.order_id = runner_orders.order_id and runners.state = 0 and runners.machine_id is null
    ) as is_awaited
from runner_orders where order_id = ?1
