-- Payloads that are kept in the storage because they are too large for a row. `reference` is what stands for one in the rows that have it.
-- looked_at: when somebody last looked whether there is still such a row, or said that there will be; unused_since: since when there was
-- none, as far as anybody has looked; doomed: it is being removed, and must not be used any more.
create table payloads (
    payload_id blob primary key,
    reference blob not null,
    looked_at integer not null,
    unused_since integer,
    doomed integer not null default 0
) without rowid;
create index payloads_by_look on payloads (looked_at);

-- The rows that have references, which are few: 88 bytes that begin as no text does (baton-core, payload.rs).
create index runs_by_reference on runs (input) where length(input) = 88 and substr(input, 1, 1) = x'ff';
create index ended_by_reference on ended (output) where length(output) = 88 and substr(output, 1, 1) = x'ff';
create index steps_by_reference on steps (output) where length(output) = 88 and substr(output, 1, 1) = x'ff';
create index inbox_by_reference on inbox (payload) where length(payload) = 88 and substr(payload, 1, 1) = x'ff';
create index published_by_reference on published (payload) where length(payload) = 88 and substr(payload, 1, 1) = x'ff';
