-- Forgets a payload that is gone from the storage.
delete from payloads where payload_id = ?1 and doomed
