-- Settings that were changed while the servers run. A value is JSON; what is not here is as each server was started.
create table settings (
    name text primary key,
    value text not null,
    changed_at bigint not null
);
