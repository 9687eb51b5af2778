-- Which history of which database this is. A standby that is promoted begins a new one, and so does a database that is restored to a
-- moment. Nothing on a standby that still is one.
select case
    when pg_is_in_recovery() then null
    else (select system_identifier from pg_control_system()) || ':' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)
end as timeline
