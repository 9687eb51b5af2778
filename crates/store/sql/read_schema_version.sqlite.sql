-- The number of the newest migration that has been applied, 0 when there is none.
select coalesce(max(version), 0) from schema_migrations
