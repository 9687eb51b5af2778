-- A file, unless it was given up.
select artifact_id, namespace, run_id, kind, epoch, created_at, size, sha256, name, path
from artifacts
where artifact_id = $1::uuid and doomed_at is null
