-- Lists the runners of a pool that will be idle, with what they were ordered as. An order may be forgotten by now.
select runners.kind, runners.usage, coalesce(runner_orders.types, '[]') as types
from runners left join runner_orders on runner_orders.order_id = runners.order_id
where runners.pool_no = ?1 and runners.state in (0, 4)
limit ?2
