-- Runner pools. spec: what it is to be, as JSON. deleting_at: takes no claims and creates nothing since then. failures, create_after, spot_after,
-- error: how the creation of machines fares.
create table pools (
    pool_no integer primary key autoincrement,
    namespace text not null,
    name text not null,
    spec text not null,
    revision integer not null default 1,
    created_at integer not null,
    deleting_at integer,
    failures integer not null default 0,
    create_after integer,
    spot_after integer,
    error text,
    unique (namespace, name)
);
create index pools_deleting on pools (pool_no) where deleting_at is not null;

-- Who wants machines of a pool. run_id: the caller's own name for what it does. state: 0 waiting, 1 ready, 2 released, 3 failed. deadline: until when it
-- waits, and once it is ready, until when it may keep them.
create table pool_claims (
    claim_no integer primary key autoincrement,
    pool_no integer not null,
    run_id text not null,
    fingerprint blob not null,
    machines integer not null,
    wanted text not null,
    priority integer not null,
    owner text not null,
    runtime_ms integer not null,
    state integer not null,
    opened_at integer not null,
    deadline integer,
    ready_at integer,
    ended_at integer,
    reason integer,
    detail text not null default '',
    unique (pool_no, run_id)
);
create index pool_claims_by_pool on pool_claims (pool_no, claim_no);
create index pool_claims_waiting on pool_claims (pool_no, claim_no) where state = 0;
create index pool_claims_open on pool_claims (deadline) where state in (0, 1);
create index pool_claims_ended on pool_claims (ended_at) where state in (2, 3);

-- Machines of pools, and places for them. state: 0 creating, 1 idle, 2 claimed, 3 running, 4 releasing, 5 terminating, 6 gone. epoch: the fence, grows when
-- the owner (claim_no) changes. deadline: how long that may last; of a terminating one, when the provider is to be asked (again). No index has what
-- heartbeats write.
create table runners (
    runner_id blob primary key,
    pool_no integer not null,
    order_id blob not null,
    state integer not null,
    epoch integer not null,
    claim_no integer,
    run_id text,
    deadline integer,
    registered_at integer,
    cause integer,
    since integer not null,
    ordered_at integer not null,
    machine_id text,
    kind text not null,
    usage integer not null,
    cpu integer not null,
    memory_mib integer not null,
    seen_at integer,
    uses integer not null default 0,
    detail text not null default '',
    token_hash blob
) without rowid;
create index runners_by_pool on runners (pool_no, state);
create index runners_by_order on runners (order_id);
create index runners_by_claim on runners (claim_no) where claim_no is not null;
create unique index runners_by_token on runners (token_hash) where token_hash is not null;
create index runners_live on runners (state) where state in (1, 2, 3, 4);
create index runners_due on runners (deadline) where state in (0, 2, 3, 4);
create index runners_ending on runners (deadline) where state = 5;
create index runners_gone on runners (since) where state = 6;

-- Machines that were asked of a provider, under a token. ask_at: when to ask (again). closed_at: settled.
create table runner_orders (
    order_id blob primary key,
    pool_no integer not null,
    machines integer not null,
    usage integer not null,
    ordered_at integer not null,
    ask_at integer not null,
    asked integer not null,
    closed_at integer,
    error text
) without rowid;
create index runner_orders_open on runner_orders (ask_at) where closed_at is null;
create index runner_orders_closed on runner_orders (closed_at) where closed_at is not null;

-- Every move of a runner. was is null when it was ordered.
create table runner_events (
    event_no integer primary key autoincrement,
    at integer not null,
    pool_no integer not null,
    runner_id blob not null,
    claim_no integer,
    was integer,
    became integer not null,
    cause integer,
    detail text not null
);
create index runner_events_by_pool on runner_events (pool_no, event_no);
create index runner_events_by_runner on runner_events (runner_id, event_no);
create index runner_events_by_claim on runner_events (claim_no, event_no) where claim_no is not null;
create index runner_events_by_time on runner_events (at);

-- Sums that metrics need after rows are gone.
create table pool_totals (
    pool_no integer not null,
    what text not null,
    much integer not null,
    primary key (pool_no, what)
) without rowid;
