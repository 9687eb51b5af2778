-- Who started a run, and where in the workflow; whether it has started others. Null and false for all but workflows.
alter table live add column parent blob;
alter table live add column parent_position integer;
alter table live add column has_children integer not null default 0;
create index live_children on live (parent) where parent is not null;

-- What a workflow remembers. failures: attempts of the run that had failed when this was written; earlier: attempts of the step that were
-- made before the run was retried.
create table steps (
    run_id blob not null,
    position integer not null,
    kind integer not null,
    state integer not null,
    attempts integer not null,
    earlier integer not null default 0,
    epoch integer not null,
    failures integer not null,
    begun_at integer not null,
    ended_at integer,
    due_at integer,
    message integer,
    worker_id blob,
    child blob,
    name text not null,
    error text,
    code text,
    output blob,
    primary key (run_id, position)
) without rowid;
-- A signal is taken once.
create unique index steps_by_message on steps (run_id, message) where message is not null;

-- Attempts of steps that failed, or were lost with their lease. The last one is in the step itself.
create table step_attempts (
    run_id blob not null,
    position integer not null,
    attempt integer not null,
    state integer not null,
    epoch integer not null,
    worker_id blob,
    begun_at integer not null,
    ended_at integer,
    name text not null,
    error text,
    code text,
    primary key (run_id, position, attempt)
) without rowid;

-- Messages for workflows. kind: 0 signal, 1 end of a child, 2 request to cancel. Written under the lock of the run's live row.
create table inbox (
    run_id blob not null,
    number integer not null,
    kind integer not null,
    at integer not null,
    state integer,
    position integer,
    name text not null,
    key text,
    error text,
    payload blob,
    primary key (run_id, number)
) without rowid;
create unique index inbox_by_key on inbox (run_id, key) where key is not null;
create unique index inbox_by_cancel on inbox (run_id) where kind = 2;

-- What a workflow shows to those who ask.
create table published (
    run_id blob primary key,
    at integer not null,
    payload blob not null
) without rowid;

-- Runs that have ended and whose relatives do not know yet.
create table outbox (
    run_id blob primary key,
    parent blob,
    parent_position integer,
    has_children integer not null
) without rowid;

-- When runs are ended that have not ended by themselves: cancelled, or failed.
create table deadlines (
    run_id blob primary key,
    at integer not null,
    cancels integer not null
) without rowid;
create index deadlines_by_time on deadlines (at);

-- Which run goes on in the place of another.
create table continued (
    run_id blob primary key,
    next blob not null
) without rowid;

-- Who started a run, also after it has ended.
create table relatives (
    run_id blob primary key,
    parent blob not null
) without rowid;
