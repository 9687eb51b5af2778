-- Changes what a pool is to be, when it is as it was seen and not being deleted.
update pools set spec = $3::text, revision = revision + 1
where pool_no = $1::bigint and revision = $2::bigint and deleting_at is null
returning pool_no, namespace, name, spec, revision, created_at, deleting_at, failures, create_after, spot_after, error
