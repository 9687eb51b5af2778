-- Forgets payloads that are gone from the storage.
delete from payloads where payload_id = any($1::uuid[]) and doomed
