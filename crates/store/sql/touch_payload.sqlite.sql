-- Somebody is about to refer to a payload. No row: it is being removed, or gone.
update payloads set looked_at = ?2, unused_since = ?2 where payload_id = ?1 and not doomed
returning payload_id
