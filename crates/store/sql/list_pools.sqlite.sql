-- Lists pools by namespace and name, after the one where the page before ended.
select pool_no, namespace, name, spec, revision, created_at, deleting_at, failures, create_after, spot_after, error
from pools
where (?1 is null or namespace = ?1)
  and (?2 is null or (namespace, name) > (?2, ?3))
order by namespace, name
limit ?4
