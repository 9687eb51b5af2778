-- Numbers changes of namespaces, so that servers find those they have not seen; a clock may be put back.
create sequence namespace_changes;

-- Parts of the installation that see nothing of each other. disabled_at: takes nothing new since then. A limit that is null is none.
create table namespaces (
    name text primary key,
    description text not null default '',
    created_at bigint not null,
    change_no bigint not null default nextval('namespace_changes'),
    disabled_at bigint,
    disabled_reason text not null default '',
    live_runs_max bigint,
    workers_max bigint,
    schedules_max bigint
);
create index namespaces_by_change on namespaces (change_no);
insert into namespaces (name, created_at)
select name, clock.now
from (select namespace as name from queues union select namespace from workers union select 'default') known,
     (select floor(extract(epoch from clock_timestamp()) * 1000)::bigint as now) clock;

-- Rules that start runs. next_at: when it is to be looked at next, null when never. last_at: everything up to then is settled. revision: grows
-- with every change; whoever changes a schedule says which one it has seen. buffered_at: a fire that waits for the end of last_run.
create table schedules (
    schedule_no bigint primary key generated always as identity,
    namespace text not null,
    schedule_id text not null,
    spec text not null,
    note text not null,
    is_paused boolean not null,
    revision bigint not null default 1,
    created_at bigint not null,
    last_at bigint not null,
    next_at bigint,
    last_fire bigint,
    last_run uuid,
    buffered_at bigint,
    fired bigint not null default 0,
    left_out bigint not null default 0,
    unique (namespace, schedule_id)
);
create index schedules_due on schedules (next_at) where next_at is not null;
create index schedules_waiting on schedules (schedule_no) where buffered_at is not null;

-- What became of fires. what: 0 started by the rule, 1 left out, 2 triggered by hand, 3 made up for by hand.
create table fires (
    fire_no bigint primary key generated always as identity,
    schedule_no bigint not null,
    fire_at bigint not null,
    at bigint not null,
    what smallint not null,
    run_id uuid
);
create index fires_by_schedule on fires (schedule_no, fire_no);
create index fires_by_time on fires (at);
