-- Forgets a server that neither listens nor writes.
delete from event_servers where server = ?1
