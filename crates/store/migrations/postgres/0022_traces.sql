-- The trace that a run is part of, as core::trace writes it; null for most.
alter table runs add column trace text;

-- Runs whose spans are still to be sent, in whole or in part. told: leases up to this number were sent.
create table open_traces (
    run_id uuid primary key,
    told integer not null default 0
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
