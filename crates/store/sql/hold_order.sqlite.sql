-- Reads an order and locks it.
select order_id, pool_no, machines, usage, types, ordered_at, ask_at, asked, closed_at, error
from runner_orders where order_id = ?1
