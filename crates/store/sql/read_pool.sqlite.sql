-- Reads a pool by its name.
select pool_no, namespace, name, spec, revision, created_at, deleting_at, failures, create_after, spot_after, error
from pools where namespace = ?1 and name = ?2
