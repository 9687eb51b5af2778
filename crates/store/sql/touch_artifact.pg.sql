-- Bytes of a file that is no lease's still come: it is not old yet.
update artifacts set created_at = coalesce($1::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)
where artifact_id = $2::uuid and kind <> 2 and size is null and doomed_at is null
