-- Facts of the installation: its secret.
create table meta (
    key text primary key,
    value blob not null
) without rowid;

create table queues (
    queue_id integer primary key,
    namespace text not null,
    name text not null,
    paused_until integer,
    backlog_max integer,
    rate_per_second real,
    rate_tokens real not null default 1,
    rate_at integer not null default 0,
    key_limit integer,
    unique (namespace, name)
);

-- A lane is a queue and a type. The hot table carries the number, not the words.
create table lanes (
    lane_id integer primary key,
    queue_id integer not null references queues,
    kind text not null,
    unique (queue_id, kind)
);

-- Orders runs of one millisecond; part of every run_id.
create table run_sequence (last integer not null);
insert into run_sequence (last) values (0);

-- Cold: what was submitted. Written once, deleted by retention.
create table runs (
    run_id blob primary key,
    lane_id integer not null,
    priority integer not null,
    submitted_at integer not null,
    due_at integer not null,
    key text,
    affinity text,
    idempotency_key text,
    fingerprint blob,
    options text,
    retry_of blob,
    input blob not null
) without rowid;
create index runs_by_lane on runs (lane_id, run_id);
create unique index runs_by_idempotency_key on runs (idempotency_key) where idempotency_key is not null;

-- Hot: runs that have not ended, and nothing else of them than a claim touches.
-- place: 0 can be claimed, 1 due later, 2 waits for its key, 3 held by a worker.
create table live (
    run_id blob primary key,
    queue_id integer not null,
    lane_id integer not null,
    state integer not null,
    place integer not null,
    level integer not null,
    priority integer not null,
    order_at integer not null,
    due_at integer not null,
    epoch integer not null default 0,
    failures integer not null default 0,
    losses integer not null default 0,
    claim_no integer,
    claimed_at integer,
    started_at integer,
    timeout_at integer,
    lease_until integer,
    cancel_by integer,
    worker_id blob,
    key text,
    affinity text
) without rowid;
create index live_ready on live (lane_id, level, order_at, run_id) where place = 0;
create index live_later on live (lane_id, due_at) where place = 1;
create index live_keys on live (queue_id, key, place, level, order_at) where key is not null;
create index live_blocked on live (queue_id, key) where place = 2;
create index live_held on live (worker_id, claim_no) where place = 3;
create index live_deadline on live (min(
    coalesce(timeout_at, 9223372036854775807), coalesce(lease_until, 9223372036854775807), coalesce(cancel_by, 9223372036854775807)))
    where place = 3 and coalesce(timeout_at, lease_until, cancel_by) is not null;

-- Cold: how it ended. Written once. lease_end is null when nobody held the run at its end.
create table ended (
    run_id blob primary key,
    state integer not null,
    reason integer,
    epoch integer not null,
    failures integer not null,
    losses integer not null,
    ended_at integer not null,
    claimed_at integer,
    started_at integer,
    lease_end integer,
    worker_id blob,
    error text,
    output blob
) without rowid;
-- Lists of failed and cancelled runs; completed ones (state 4) are the rule and need no index.
create index ended_badly on ended (run_id) where state <> 4;

-- Cold: leases that ended before their run did. The last lease of a run is in its ended row.
create table attempts (
    run_id blob not null,
    epoch integer not null,
    worker_id blob,
    claimed_at integer not null,
    started_at integer,
    ended_at integer not null,
    lease_end integer not null,
    error text,
    primary key (run_id, epoch)
) without rowid;

-- Which worker (by name) last finished a run with this affinity key.
create table affinity (
    queue_id integer not null,
    key text not null,
    worker_name text not null,
    at integer not null,
    primary key (queue_id, key)
) without rowid;

-- Cold: what a worker said when it registered.
create table workers (
    worker_id blob primary key,
    instance text unique,
    namespace text not null,
    name text not null,
    info text not null,
    registered_at integer not null,
    key_id text
) without rowid;

-- Hot: what changes with every sign of life. status: 0 online, 1 draining, 2 offline.
create table worker_live (
    worker_id blob primary key,
    status integer not null,
    max_concurrent integer not null,
    active integer not null default 0,
    ttl_ms integer not null,
    seen_at integer not null,
    lease_until integer not null,
    offline_at integer,
    completed integer not null default 0,
    failed integer not null default 0,
    status_reason text,
    health text,
    unfit text
) without rowid;
create index worker_live_up on worker_live (worker_id) where status <> 2;

create table api_keys (
    id text primary key,
    hash blob not null unique,
    name text not null,
    scopes text not null,
    namespace text,
    created_at integer not null,
    revoked_at integer
) without rowid;

create table audit (
    id integer primary key autoincrement,
    at integer not null,
    actor text not null,
    action text not null,
    subject text not null,
    detail text not null,
    namespace text
);
