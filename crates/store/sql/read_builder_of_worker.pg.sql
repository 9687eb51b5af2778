-- The builder whose present incarnation this is.
select namespace, name_id, worker_id, key_id, token, token_used, token_until, registered_at, revoked_at, succeeded, failed
from builders
where worker_id = $1::uuid
