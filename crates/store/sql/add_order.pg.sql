-- Writes down an order, unless it is there.
insert into runner_orders (order_id, pool_no, machines, usage, ordered_at, ask_at, asked, types)
values ($1::uuid, $2::bigint, $3::integer, $4::smallint, $5::bigint, $6::bigint, $7::integer, $8::text)
on conflict (order_id) do nothing
returning order_id, pool_no, machines, usage, types, ordered_at, ask_at, asked, closed_at, error
