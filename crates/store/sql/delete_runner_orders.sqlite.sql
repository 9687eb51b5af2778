-- Forgets orders that were settled long ago.
delete from runner_orders where order_id in (
    select order_id from runner_orders where closed_at < ?1 order by closed_at limit ?2
)
