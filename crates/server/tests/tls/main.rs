//! TLS over the wire: a sample of each face, whom clients and the server trust, certificates that are
//! replaced, and clients that are slow or speak something else. The store does not matter here.

mod clients;
mod faces;
mod hostile;
mod replaced;
mod rig;
mod trust;
