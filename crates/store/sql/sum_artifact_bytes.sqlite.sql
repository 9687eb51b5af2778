-- What the stored files of a namespace, or of all, take.
select coalesce(sum(bytes), 0) from artifact_totals where ?1 is null or namespace = ?1
