-- Reads the pool of an order and locks it, as lock_pool does.
select pool_no, namespace, name, spec, revision, created_at, deleting_at, failures, create_after, spot_after, error
from pools where pool_no = (select pool_no from runner_orders where order_id = $1::uuid)
for update
