-- Writes down what came of an attempt, unless another has begun since.
with clock as (
    select coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
)
update webhook_deliveries set state = $5::smallint, due_at = clock.now + $6::bigint, log = $7::text,
    tries = tries - $8::integer, ended_at = case when $5::smallint > 1 then clock.now end
from clock
where webhook_id = $2::uuid and delivery_id = $3::uuid and attempt = $4::integer and state = 1
returning 1
