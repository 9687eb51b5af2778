//! What Baton's tests share, and nothing that a released program needs.
//!
//! * [`Postgres`] and [`database`]: a throw-away PostgreSQL, and fresh databases on it; [`PgBouncer`] before one.
//! * [`Authority`]: certificates, good and bad ones.
//! * [`Process`] and [`Baton`]: programs that are killed, stopped and started again on purpose.
//! * [`Proxy`]: a network that loses answers.
//! * [`Collector`]: a collector of traces.
//! * [`GitHub`]: as much of GitHub's API as runners need.
//!
//! Nothing started here outlives the test process, however that one ends.

mod authority;
mod baton;
mod collector;
mod databases;
mod github;
pub mod http2;
mod pgbouncer;
mod postgres;
mod process;
mod proxy;
mod s3;
mod watchdog;

pub use authority::{Authority, Issued};
pub use baton::Baton;
pub use collector::{CollectedSpan, Collector, Reply};
pub use databases::{Database, POSTGRES_VARIABLE, database, dump};
pub use github::{GITHUB_TOKEN, GitHub, GitHubFault, GitHubRunner};
pub use pgbouncer::PgBouncer;
pub use postgres::{Frozen, Postgres, ServerTls};
pub use process::Process;
pub use proxy::Proxy;
pub use s3::{S3_KEY, S3_SECRET, start_s3};

/// A port on 127.0.0.1 that nobody listens on at this moment.
///
/// It is below those the system gives to outgoing connections, so that no client sits on it when a server that was killed
/// comes back to it.
pub fn free_port() -> u16 {
    use std::sync::atomic::{AtomicU32, Ordering};
    const PORTS: std::ops::Range<u32> = 10_000..32_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Test processes that run at the same time begin at different places.
    let begin = std::process::id().wrapping_mul(97);
    let candidates = PORTS.map(|_| {
        let step = begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        (PORTS.start + step % (PORTS.end - PORTS.start)) as u16
    });
    let mut free = candidates.filter(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok());
    free.next().expect("no free port on 127.0.0.1")
}
