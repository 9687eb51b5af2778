-- Notes what a look at a payload has shown.
update payloads set looked_at = ?2, unused_since = ?3, doomed = ?4 where payload_id = ?1
