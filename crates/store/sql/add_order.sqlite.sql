-- Writes down an order, unless it is there.
insert into runner_orders (order_id, pool_no, machines, usage, ordered_at, ask_at, asked, types)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
on conflict (order_id) do nothing
returning order_id, pool_no, machines, usage, types, ordered_at, ask_at, asked, closed_at, error
