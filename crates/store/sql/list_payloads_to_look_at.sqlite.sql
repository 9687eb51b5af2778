-- Payloads that nobody has looked at since ?1.
select payload_id, reference, unused_since, doomed, looked_at from payloads where looked_at <= ?1 order by looked_at, payload_id limit ?2
