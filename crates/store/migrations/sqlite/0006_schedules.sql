-- Parts of the installation that see nothing of each other. disabled_at: takes nothing new since then. A limit that is null is none.
-- change_no: grows with every change, so that servers find those they have not seen; a clock may be put back.
create table namespaces (
    name text primary key,
    description text not null default '',
    created_at integer not null,
    change_no integer not null,
    disabled_at integer,
    disabled_reason text not null default '',
    live_runs_max integer,
    workers_max integer,
    schedules_max integer
) without rowid;
create index namespaces_by_change on namespaces (change_no);
insert into namespaces (name, created_at, change_no)
select name, unixepoch() * 1000, 1
from (select namespace as name from queues union select namespace from workers union select 'default');

-- Rules that start runs. next_at: when it is to be looked at next, null when never. last_at: everything up to then is settled. revision: grows
-- with every change; whoever changes a schedule says which one it has seen. buffered_at: a fire that waits for the end of last_run.
create table schedules (
    schedule_no integer primary key autoincrement,
    namespace text not null,
    schedule_id text not null,
    spec text not null,
    note text not null,
    is_paused integer not null,
    revision integer not null default 1,
    created_at integer not null,
    last_at integer not null,
    next_at integer,
    last_fire integer,
    last_run blob,
    buffered_at integer,
    fired integer not null default 0,
    left_out integer not null default 0,
    unique (namespace, schedule_id)
);
create index schedules_due on schedules (next_at) where next_at is not null;
create index schedules_waiting on schedules (schedule_no) where buffered_at is not null;

-- What became of fires. what: 0 started by the rule, 1 left out, 2 triggered by hand, 3 made up for by hand.
create table fires (
    fire_no integer primary key autoincrement,
    schedule_no integer not null,
    fire_at integer not null,
    at integer not null,
    what integer not null,
    run_id blob
);
create index fires_by_schedule on fires (schedule_no, fire_no);
create index fires_by_time on fires (at);
