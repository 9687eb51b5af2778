-- Facts of the installation: its secret.
create table meta (
    key text primary key,
    value bytea not null
);

create table queues (
    queue_id integer generated always as identity primary key,
    namespace text not null,
    name text not null,
    paused_until bigint,
    backlog_max bigint,
    rate_per_second double precision,
    rate_tokens double precision not null default 1,
    rate_at bigint not null default 0,
    key_limit integer,
    unique (namespace, name)
);

-- A lane is a queue and a type. The hot table carries the number, not the words.
create table lanes (
    lane_id integer generated always as identity primary key,
    queue_id integer not null references queues,
    kind text not null,
    unique (queue_id, kind)
);

-- Orders runs of one millisecond; part of every run_id.
create sequence run_sequence cache 1;

-- Cold: what was submitted. Written once, deleted by retention.
create table runs (
    run_id uuid primary key,
    lane_id integer not null,
    priority smallint not null,
    submitted_at bigint not null,
    due_at bigint not null,
    key text,
    affinity text,
    idempotency_key text,
    fingerprint bytea,
    options text,
    retry_of uuid,
    input bytea not null
);
create index runs_by_lane on runs (lane_id, run_id);
create unique index runs_by_idempotency_key on runs (idempotency_key) where idempotency_key is not null;

-- Hot: runs that have not ended, and nothing else of them than a claim touches.
-- place: 0 can be claimed, 1 due later, 2 waits for its key, 3 held by a worker.
create table live (
    run_id uuid primary key,
    queue_id integer not null,
    lane_id integer not null,
    state smallint not null,
    place smallint not null,
    level smallint not null,
    priority smallint not null,
    order_at bigint not null,
    due_at bigint not null,
    epoch integer not null default 0,
    failures integer not null default 0,
    losses integer not null default 0,
    claim_no bigint,
    claimed_at bigint,
    started_at bigint,
    timeout_at bigint,
    lease_until bigint,
    cancel_by bigint,
    worker_id uuid,
    key text,
    affinity text
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
create index live_ready on live (lane_id, level, order_at, run_id) where place = 0;
create index live_later on live (lane_id, due_at) where place = 1;
create index live_keys on live (queue_id, key, place, level, order_at) where key is not null;
create index live_blocked on live (queue_id, key) where place = 2;
create index live_held on live (worker_id, claim_no) where place = 3;
create index live_deadline on live (least(timeout_at, lease_until, cancel_by))
    where place = 3 and least(timeout_at, lease_until, cancel_by) is not null;

-- Cold: how it ended. Written once. lease_end is null when nobody held the run at its end.
create table ended (
    run_id uuid primary key,
    state smallint not null,
    reason smallint,
    epoch integer not null,
    failures integer not null,
    losses integer not null,
    ended_at bigint not null,
    claimed_at bigint,
    started_at bigint,
    lease_end smallint,
    worker_id uuid,
    error text,
    output bytea
);
-- Lists of failed and cancelled runs; completed ones (state 4) are the rule and need no index.
create index ended_badly on ended (run_id) where state <> 4;

-- Cold: leases that ended before their run did. The last lease of a run is in its ended row.
create table attempts (
    run_id uuid not null,
    epoch integer not null,
    worker_id uuid,
    claimed_at bigint not null,
    started_at bigint,
    ended_at bigint not null,
    lease_end smallint not null,
    error text,
    primary key (run_id, epoch)
);

-- Which worker (by name) last finished a run with this affinity key.
create table affinity (
    queue_id integer not null,
    key text not null,
    worker_name text not null,
    at bigint not null,
    primary key (queue_id, key)
);

-- Cold: what a worker said when it registered.
create table workers (
    worker_id uuid primary key,
    instance text unique,
    namespace text not null,
    name text not null,
    info text not null,
    registered_at bigint not null,
    key_id text
);

-- Hot: what changes with every sign of life. status: 0 online, 1 draining, 2 offline.
create table worker_live (
    worker_id uuid primary key,
    status smallint not null,
    max_concurrent integer not null,
    active integer not null default 0,
    ttl_ms bigint not null,
    seen_at bigint not null,
    lease_until bigint not null,
    offline_at bigint,
    completed bigint not null default 0,
    failed bigint not null default 0,
    status_reason text,
    health text,
    unfit text
) with (fillfactor = 50);
create index worker_live_up on worker_live (worker_id) where status <> 2;

create table api_keys (
    id text primary key,
    hash bytea not null unique,
    name text not null,
    scopes text not null,
    namespace text,
    created_at bigint not null,
    revoked_at bigint
);

create table audit (
    id bigint generated always as identity primary key,
    at bigint not null,
    actor text not null,
    action text not null,
    subject text not null,
    detail text not null,
    namespace text
);
