-- Notes that a migration has been applied.
insert into schema_migrations (version, name, applied_at) values (?1, ?2, ?3)
