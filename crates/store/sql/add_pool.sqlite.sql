-- Makes a pool, unless there is one of its name.
insert into pools (namespace, name, spec, created_at)
values (?2, ?3, ?4, ?1)
on conflict (namespace, name) do nothing
returning pool_no, namespace, name, spec, revision, created_at, deleting_at, failures, create_after, spot_after, error
