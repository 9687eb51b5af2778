-- Reads a pool by its number.
select pool_no, namespace, name, spec, revision, created_at, deleting_at, failures, create_after, spot_after, error
from pools where pool_no = $1::bigint
