-- Files of a build that are all there: its results, and what it was submitted with.
select artifact_id, namespace, run_id, kind, epoch, created_at, size, sha256, name, path
from artifacts
where run_id = $1::uuid and kind = 2 and size is not null and doomed_at is null
union all
select artifact_id, artifacts.namespace, artifacts.run_id, kind, epoch, created_at, size, sha256, name, path
from builds join artifacts on artifacts.artifact_id in (builds.source_id, builds.certs_id)
where builds.run_id = $1
order by created_at, artifact_id
