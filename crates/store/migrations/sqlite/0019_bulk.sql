-- Operations on all runs that a filter finds. The identifier is made as those of runs are: runs with smaller ones were
-- submitted before. due_at: nobody looks at it before; while a server acts on the runs in planned, how long it may take.
create table bulk_operations (
    bulk_id blob primary key,
    namespace text,
    action integer not null,
    filter text not null,
    reason text,
    created_by text not null,
    created_at integer not null,
    idempotency_key text,
    fingerprint blob,
    rate real not null,
    state integer not null default 0,
    stopping integer not null default 0,
    ended_at integer,
    version integer not null default 0,
    due_at integer not null,
    run_cursor blob,
    planned blob not null default x'',
    matched integer,
    done integer not null default 0,
    skipped integer not null default 0,
    failed integer not null default 0,
    errors text not null default '[]',
    tokens real not null,
    rate_at integer not null,
    troubles integer not null default 0,
    waits_for text
) without rowid;
create index bulk_live on bulk_operations (due_at, bulk_id) where state = 0;
create index bulk_ended on bulk_operations (ended_at) where state <> 0;
create unique index bulk_by_idempotency_key on bulk_operations (idempotency_key) where idempotency_key is not null;
