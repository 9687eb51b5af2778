//! What every store promises. Each case is written once and runs on SQLite and on PostgreSQL.

mod builds_rig;
mod rig;
mod workflows_rig;

mod affinity;
mod builds_builders;
mod builds_files;
mod builds_logs;
mod builds_machines;
mod builds_retention;
mod builds_submit;
mod cancel;
mod claim;
mod expiry;
mod fairness;
mod finish;
mod keys;
mod leases;
mod namespaces;
mod payloads;
mod queues;
mod reading;
mod repeats;
mod retention;
mod retry;
mod schedules;
mod schedules_fire;
mod servers;
mod settings;
mod submit;
mod workers;
mod workflows_children;
mod workflows_ends;
mod workflows_inbox;
mod workflows_reading;
mod workflows_steps;
