-- Reads which migrations were applied.
select version from schema_migrations order by version
