-- The builder with this name.
select namespace, name_id, worker_id, key_id, token, token_used, token_until, registered_at, revoked_at, succeeded, failed
from builders
where namespace = $1::text and name_id = $2::text
