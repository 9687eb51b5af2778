//! What Baton's tests share, and nothing that a released program needs.
//!
//! * [`Postgres`] and [`database`]: a throw-away PostgreSQL, and fresh databases on it.
//! * [`Process`] and [`Baton`]: programs that are killed, stopped and started again on purpose.
//! * [`Proxy`]: a network that loses answers.
//!
//! Nothing started here outlives the test process, however that one ends.

mod baton;
mod databases;
mod postgres;
mod process;
mod proxy;
mod watchdog;

pub use baton::Baton;
pub use databases::{Database, POSTGRES_VARIABLE, database};
pub use postgres::Postgres;
pub use process::Process;
pub use proxy::Proxy;

/// A port on 127.0.0.1 that nobody listens on at this moment.
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("no free port on 127.0.0.1");
    listener.local_addr().expect("a bound socket has an address").port()
}
