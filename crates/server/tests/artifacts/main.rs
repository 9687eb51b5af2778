//! The artifact storage: every test runs on a directory, on an S3 server that is started for it,
//! and on both as one storage with its mirror.

mod cache;
mod disk_full;
mod downloads;
mod gone;
mod leftovers;
mod mirrored;
mod moving;
mod put;
mod rig;
mod sealed;
mod tus;
mod uploads;

/// Makes a test of each function for every place.
macro_rules! on_every_place {
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
        mod directory_and_s3 {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(crate::rig::Rig::directory_and_s3()).await
            })*
        }
    };
}
pub(crate) use on_every_place;
