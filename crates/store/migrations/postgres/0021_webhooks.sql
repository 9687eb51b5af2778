-- Who is told of events by calls, what waits to be told, and what became of it.
create table webhooks (
    webhook_id uuid primary key,
    -- None: events of all namespaces.
    namespace text,
    name text not null,
    url text not null,
    filter text not null,
    state smallint not null,
    why text not null,
    -- Sealed by the server. The one before is good until then.
    secret bytea not null,
    secret_before bytea,
    before_until bigint not null,
    -- Everything up to here was looked at.
    position bigint not null,
    -- Since when it is to be told of what fits.
    since bigint not null,
    -- Deliveries that wait, and events that did not fit.
    waiting bigint not null,
    missed bigint not null,
    failing_since bigint,
    last_success_at bigint,
    -- It wants nothing before.
    held_until bigint not null,
    created_at bigint not null,
    created_by text not null,
    revision bigint not null
) with (fillfactor = 50);
create unique index webhooks_by_name on webhooks (coalesce(namespace, ''), name);

create table webhook_deliveries (
    webhook_id uuid not null references webhooks on delete cascade,
    delivery_id uuid not null,
    event_id bigint not null,
    kind text not null,
    subject text,
    body bytea not null,
    state smallint not null,
    -- When it is to be tried, or tried again because nobody said what came of it.
    due_at bigint not null,
    -- Attempts of all time, and since it was made or replayed.
    attempt integer not null,
    tries integer not null,
    log text not null,
    created_at bigint not null,
    ended_at bigint,
    primary key (webhook_id, delivery_id)
);
create index webhook_deliveries_due on webhook_deliveries (webhook_id, due_at, event_id) where state = 1;
create index webhook_deliveries_ended on webhook_deliveries (webhook_id, state, ended_at) where state > 1;
