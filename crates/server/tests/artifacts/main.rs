//! The artifact storage: every test runs on a directory and on an S3 server that is started for it.

mod cache;
mod disk_full;
mod downloads;
mod leftovers;
mod put;
mod rig;
mod sealed;
mod tus;
mod uploads;

/// Makes a test of each function for both places.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod directory {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(crate::rig::Rig::directory()).await
            })*
        }
        mod s3 {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(crate::rig::Rig::s3()).await
            })*
        }
    };
}
pub(crate) use on_both;
