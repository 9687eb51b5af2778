-- Notes a payload that is about to be written to the storage. Nobody refers to it yet, and until ?4 nobody asks.
insert into payloads (payload_id, reference, look_at, unused_since) values (?1, ?2, ?4, ?3)
on conflict (payload_id) do nothing
