-- Forgets servers that have not been heard of, and says what they wrote.
delete from event_servers where until < ?1 returning writes
