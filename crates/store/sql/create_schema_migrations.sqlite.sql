-- Makes the table that says which migrations have been applied.
create table if not exists schema_migrations (
    version integer primary key,
    name text not null,
    applied_at integer not null
)
