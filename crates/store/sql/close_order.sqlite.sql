-- Settles an order: nobody asks for its machines any more.
update runner_orders set closed_at = ?2, error = ?3
where order_id = ?1 and closed_at is null
