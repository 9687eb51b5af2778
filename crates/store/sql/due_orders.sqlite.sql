-- Hands orders to the caller, who is to ask for their machines, and to nobody else for a while.
update runner_orders set ask_at = ?1 + ?2, asked = asked + 1
where order_id in (select order_id from runner_orders where closed_at is null and ask_at <= ?1 order by ask_at limit ?3)
returning order_id, pool_no, machines, usage, types, ordered_at, ask_at, asked, closed_at, error
