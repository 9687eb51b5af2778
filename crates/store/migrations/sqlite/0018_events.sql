-- What has happened, for those who listen. Written only while somebody does; one row for each batch.
create table events (
    first integer primary key,
    last integer not null,
    at integer not null,
    body blob not null
);

-- The position of the last event.
create table event_clock (
    last integer not null
);
insert into event_clock (last) values (0);

-- Which kinds of events somebody listens for at each server, which it writes, and how long this is believed.
create table event_servers (
    server text primary key,
    wants integer not null,
    writes integer not null,
    until integer not null
) without rowid;
