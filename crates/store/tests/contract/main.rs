//! What every store promises. Each case is written once and runs on SQLite and on PostgreSQL.

mod builds_rig;
mod rig;

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
mod queues;
mod reading;
mod repeats;
mod retention;
mod retry;
mod servers;
mod submit;
mod workers;
