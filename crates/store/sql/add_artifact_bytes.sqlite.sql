-- Moves what the stored files of a namespace take.
insert into artifact_totals (namespace, bytes) values (?1, ?2)
on conflict (namespace) do update set bytes = artifact_totals.bytes + excluded.bytes
