-- Settings that were changed while the server runs. A value is JSON; what is not here is as the server was started.
create table settings (
    name text primary key,
    value text not null,
    changed_at integer not null
) without rowid;
