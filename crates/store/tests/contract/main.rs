//! What every store promises. Each case is written once and runs on SQLite and on PostgreSQL.

mod rig;

mod affinity;
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
