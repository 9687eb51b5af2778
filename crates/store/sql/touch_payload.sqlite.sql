-- Somebody is about to refer to a payload: until ?3 nobody asks whether anybody does. No row: it is being removed, or gone.
update payloads set look_at = ?3, unused_since = ?2 where payload_id = ?1 and not doomed
returning payload_id
