-- Who is told of events by calls, what waits to be told, and what became of it.
create table webhooks (
    webhook_id blob primary key,
    -- None: events of all namespaces.
    namespace text,
    name text not null,
    url text not null,
    filter text not null,
    state integer not null,
    why text not null,
    -- Sealed by the server. The one before is good until then.
    secret blob not null,
    secret_before blob,
    before_until integer not null,
    -- Everything up to here was looked at.
    position integer not null,
    -- Since when it is to be told of what fits.
    since integer not null,
    -- Deliveries that wait, and events that did not fit.
    waiting integer not null,
    missed integer not null,
    failing_since integer,
    last_success_at integer,
    -- It wants nothing before.
    held_until integer not null,
    created_at integer not null,
    created_by text not null,
    revision integer not null
) without rowid;
create unique index webhooks_by_name on webhooks (coalesce(namespace, ''), name);

create table webhook_deliveries (
    webhook_id blob not null references webhooks on delete cascade,
    delivery_id blob not null,
    event_id integer not null,
    kind text not null,
    subject text,
    body blob not null,
    state integer not null,
    -- When it is to be tried, or tried again because nobody said what came of it.
    due_at integer not null,
    -- Attempts of all time, and since it was made or replayed.
    attempt integer not null,
    tries integer not null,
    log text not null,
    created_at integer not null,
    ended_at integer,
    primary key (webhook_id, delivery_id)
);
create index webhook_deliveries_due on webhook_deliveries (webhook_id, due_at, event_id) where state = 1;
create index webhook_deliveries_ended on webhook_deliveries (webhook_id, state, ended_at) where state > 1;
