-- Runner pools. spec: what it is to be, as JSON. deleting_at: takes no claims and creates nothing since then. failures, create_after, spot_after,
-- error: how the creation of machines fares.
create table pools (
    pool_no bigint primary key generated always as identity,
    namespace text not null,
    name text not null,
    spec text not null,
    revision bigint not null default 1,
    created_at bigint not null,
    deleting_at bigint,
    failures integer not null default 0,
    create_after bigint,
    spot_after bigint,
    error text,
    unique (namespace, name)
);
create index pools_deleting on pools (pool_no) where deleting_at is not null;

-- Who wants machines of a pool. run_id: the caller's own name for what it does. state: 0 waiting, 1 ready, 2 released, 3 failed. deadline: until when it
-- waits, and once it is ready, until when it may keep them.
create table pool_claims (
    claim_no bigint primary key generated always as identity,
    pool_no bigint not null,
    run_id text not null,
    fingerprint bytea not null,
    machines integer not null,
    wanted text not null,
    priority smallint not null,
    owner text not null,
    runtime_ms bigint not null,
    state smallint not null,
    opened_at bigint not null,
    deadline bigint,
    ready_at bigint,
    ended_at bigint,
    reason smallint,
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
    runner_id uuid primary key,
    pool_no bigint not null,
    order_id uuid not null,
    state smallint not null,
    epoch integer not null,
    claim_no bigint,
    run_id text,
    deadline bigint,
    registered_at bigint,
    cause smallint,
    since bigint not null,
    ordered_at bigint not null,
    machine_id text,
    kind text not null,
    usage smallint not null,
    cpu integer not null,
    memory_mib bigint not null,
    seen_at bigint,
    uses integer not null default 0,
    detail text not null default '',
    token_hash bytea
) with (fillfactor = 50);
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
    order_id uuid primary key,
    pool_no bigint not null,
    machines integer not null,
    usage smallint not null,
    ordered_at bigint not null,
    ask_at bigint not null,
    asked integer not null,
    closed_at bigint,
    error text
);
create index runner_orders_open on runner_orders (ask_at) where closed_at is null;
create index runner_orders_closed on runner_orders (closed_at) where closed_at is not null;

-- Every move of a runner. was is null when it was ordered.
create table runner_events (
    event_no bigint primary key generated always as identity,
    at bigint not null,
    pool_no bigint not null,
    runner_id uuid not null,
    claim_no bigint,
    was smallint,
    became smallint not null,
    cause smallint,
    detail text not null
);
create index runner_events_by_pool on runner_events (pool_no, event_no);
create index runner_events_by_runner on runner_events (runner_id, event_no);
create index runner_events_by_claim on runner_events (claim_no, event_no) where claim_no is not null;
create index runner_events_by_time on runner_events (at);

-- Sums that metrics need after rows are gone.
create table pool_totals (
    pool_no bigint not null,
    what text not null,
    much bigint not null,
    primary key (pool_no, what)
);
