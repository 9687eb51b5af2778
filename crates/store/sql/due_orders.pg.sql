-- Hands orders to the caller, who is to ask for their machines, and to nobody else for a while.
update runner_orders set ask_at = $1::bigint + $2::bigint, asked = asked + 1
where order_id = any(array(
    select order_id from runner_orders where closed_at is null and ask_at <= $1 order by ask_at limit $3::bigint for update skip locked
))
returning order_id, pool_no, machines, usage, types, ordered_at, ask_at, asked, closed_at, error
