-- Notes a file that is about to be written.
insert into artifacts (artifact_id, namespace, run_id, kind, epoch, created_at, name, path)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
on conflict (artifact_id) do nothing
