-- Numbers as series, in blocks that the store does not read. Blocks of a minute are put together to blocks of an hour, and these to
-- blocks of a day. server and seq say which block of which server it is; '' and 0 for one that was put together.
create table statistics (
    number bigint generated always as identity primary key,
    server text not null,
    seq bigint not null,
    at bigint not null,
    step_ms bigint not null,
    body bytea not null
);
create index statistics_at on statistics (at);

-- Which block each server has written last, and when: a block is written once, however often its server tries.
create table statistics_servers (
    server text primary key,
    seq bigint not null,
    at bigint not null
) with (fillfactor = 50);
