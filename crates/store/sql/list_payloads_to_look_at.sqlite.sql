-- Payloads whose time to be looked at has come.
select payload_id, reference, unused_since, doomed from payloads where look_at <= ?1 order by look_at, payload_id limit ?2
