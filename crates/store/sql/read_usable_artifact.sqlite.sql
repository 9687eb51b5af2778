-- Whether a file of this kind (?3) can be taken by a build of this namespace.
select 1 from artifacts
where artifact_id = ?1 and namespace = ?2 and kind = ?3 and size is not null and doomed_at is null
