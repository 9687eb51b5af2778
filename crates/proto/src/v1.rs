//! Package `baton.v1`: what the .proto files say, as Rust.

// Written by a program, which has its own habits.
#![allow(missing_docs, unreachable_pub, clippy::all, clippy::wildcard_imports)]

tonic::include_proto!("baton.v1");

/// The files themselves, for clients that ask what there is (gRPC reflection).
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/baton.v1.bin"));
