//! The promises, kept by the real `baton` program as processes that are killed, frozen, cut off and run out of disk.
//!
//! Every test is a function of a store, and runs once on SQLite and once on PostgreSQL where both make sense. Each ends
//! by asking the server about every run: all completed, each exactly once.

mod agent;
mod balancer;
mod build_race;
mod builds;
#[cfg(debug_assertions)]
mod bulk;
mod canaries;
mod chaos;
mod commands;
#[cfg(debug_assertions)]
mod crashes;
mod curl_builds;
mod custody;
mod demo;
#[cfg(target_os = "linux")]
mod disk_full;
mod failover;
mod first_start;
mod frozen_server;
mod frozen_worker;
mod github;
mod hands;
mod killed_postgres;
mod killed_server;
mod killed_statistics;
mod killed_worker;
mod late_postgres;
mod lost_answers;
#[cfg(target_os = "linux")]
mod never_reads;
mod pooled;
mod postgres_tls;
mod request_log;
mod restored;
#[cfg(target_os = "linux")]
mod runner_pools;
mod schedules;
mod secrets;
mod short_claims;
mod site;
#[cfg(target_os = "linux")]
mod small_disk;
mod stopped_server;
mod storage;
mod stored;
mod stream;
mod terminal;
mod tls;
mod top;
mod traces;
mod two_servers;
mod verdict;
mod wait;
mod webhooks;
mod wire;
mod workflows;

/// Makes one test for SQLite and one for PostgreSQL of each function.
macro_rules! on_both_stores {
    ($($(#[$attribute:meta])* $name:ident),+ $(,)?) => {
        mod sqlite {
            $($(#[$attribute])*
            #[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name($crate::site::Store::Sqlite).await;
            })+
        }
        mod postgres {
            $($(#[$attribute])*
            #[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name($crate::site::Store::Postgres).await;
            })+
        }
    };
}
pub(crate) use on_both_stores;
