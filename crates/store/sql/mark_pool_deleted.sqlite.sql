-- Begins to delete a pool.
update pools set deleting_at = coalesce(deleting_at, ?2)
where pool_no = ?1
returning pool_no, namespace, name, spec, revision, created_at, deleting_at, failures, create_after, spot_after, error
