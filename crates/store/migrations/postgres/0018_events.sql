-- What has happened, for those who listen. Written only while somebody does; one row for each batch of a server.
-- Unlogged: after a crash of the database it is empty, and whoever goes on listening is told so.
create unlogged table events (
    first bigint primary key,
    last bigint not null,
    at bigint not null,
    body bytea not null
);

-- The position of the last event. Its lock makes the order of positions that of commits.
create table event_clock (
    last bigint not null
) with (fillfactor = 10);
insert into event_clock (last) values (0);

-- Which kinds of events somebody listens for at each server, which it writes, and how long this is believed.
create table event_servers (
    server text primary key,
    wants integer not null,
    writes integer not null,
    until bigint not null
);
