-- Numbers as series, in blocks that the store does not read. Blocks of a minute are put together to blocks of an hour, and these to
-- blocks of a day. server and seq say which block of which server it is; '' and 0 for one that was put together.
create table statistics (
    number integer primary key autoincrement,
    server text not null,
    seq integer not null,
    at integer not null,
    step_ms integer not null,
    body blob not null
);
create index statistics_at on statistics (at);

-- Which block each server has written last, and when: a block is written once, however often its server tries.
create table statistics_servers (
    server text primary key,
    seq integer not null,
    at integer not null
) without rowid;
