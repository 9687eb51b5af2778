-- Notes a payload that is about to be written to the storage. Nobody refers to it yet.
insert into payloads (payload_id, reference, looked_at, unused_since) values (?1, ?2, ?3, ?3)
on conflict (payload_id) do nothing
