-- Settles an order: nobody asks for its machines any more.
update runner_orders set closed_at = $2::bigint, error = $3::text
where order_id = $1::uuid and closed_at is null
