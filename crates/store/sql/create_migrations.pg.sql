-- Makes the table that remembers which migrations were applied.
create table if not exists schema_migrations (version integer primary key, name text not null, applied_at bigint not null)
