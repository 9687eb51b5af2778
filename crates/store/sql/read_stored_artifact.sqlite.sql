-- Whether this was said of a file before.
select exists (select 1 from artifacts where artifact_id = ?1 and doomed_at is null and size = ?2 and sha256 = ?3)
