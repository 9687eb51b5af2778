-- Settles orders of which no runner waits for a machine any more.
update runner_orders set closed_at = ?1
where closed_at is null and ask_at <= ?1
  and not exists (select 1 from runners where runners.order_id = runner_orders.order_id and runners.state = 0 and runners.machine_id is null)
