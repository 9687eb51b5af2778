-- Notes that a migration was applied.
insert into schema_migrations (version, name, applied_at)
values ($1::integer, $2::text, coalesce($3::bigint, floor(extract(epoch from clock_timestamp()) * 1000)::bigint))
