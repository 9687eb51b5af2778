-- Operations on all runs that a filter finds. The identifier is made as those of runs are: runs with smaller ones were
-- submitted before. due_at: nobody looks at it before; while a server acts on the runs in planned, how long it may take.
create table bulk_operations (
    bulk_id uuid primary key,
    namespace text,
    action smallint not null,
    filter text not null,
    reason text,
    created_by text not null,
    created_at bigint not null,
    idempotency_key text,
    fingerprint bytea,
    rate double precision not null,
    state smallint not null default 0,
    stopping boolean not null default false,
    ended_at bigint,
    version bigint not null default 0,
    due_at bigint not null,
    run_cursor uuid,
    planned bytea not null default '',
    matched bigint,
    done bigint not null default 0,
    skipped bigint not null default 0,
    failed bigint not null default 0,
    errors text not null default '[]',
    tokens double precision not null,
    rate_at bigint not null,
    troubles integer not null default 0,
    waits_for text
) with (fillfactor = 50);
create index bulk_live on bulk_operations (due_at, bulk_id) where state = 0;
create index bulk_ended on bulk_operations (ended_at) where state <> 0;
create unique index bulk_by_idempotency_key on bulk_operations (idempotency_key) where idempotency_key is not null;
