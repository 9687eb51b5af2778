//! Every route over the wire, on both stores. The files mirror the routes; `harness` starts the server.

mod harness;

mod builds;
mod claims;
mod connections;
mod displaced;
mod events;
mod explain;
mod foreign_keys;
mod grpc;
mod heartbeats;
mod hostile;
mod hung_up;
mod idempotency;
mod keys;
mod leases;
mod limits;
mod lossy_store;
mod matrix;
mod namespaces;
mod operations;
mod payloads;
mod pools;
mod promises;
mod queues;
mod quiet;
mod reference;
mod runs;
mod scheduler;
mod schedules;
mod sealed;
mod secrets;
mod settings;
mod shutdown;
mod unknown_outcome;
mod workers;
