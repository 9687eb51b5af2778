//! `kill -9` of the server at every point between the start of an upload and the completed build.
//!
//! The server kills itself at a named point (`baton_server::crash`), and is started again. Its clients repeat what was not answered
//! and know nothing else. Then every build has ended as it should, and the storage holds the files of builds and nothing more.

mod expo;
mod git;
mod payloads;
mod pieces;
#[cfg(target_os = "linux")]
mod pools;
mod walks;
mod yard;

use std::collections::BTreeSet;

use baton_server::crash::POINTS;

use crate::site::Store;
use walks::{Act, Story};
use yard::{Storage, Yard};

/// How often a point is come to in one act before the kill, at most.
const TIMES_MAX: usize = 2;

/// Kills the server at each point of a story, the first time it comes there in an act, and the second.
async fn every_point(story: Story, store: Store, storage: Storage) {
    let mut yard = Yard::new(store, storage).await;
    for (act, name) in story.walks(storage) {
        for time in 1..=TIMES_MAX {
            let point = format!("{name}:{time}");
            tell(story, &mut yard, act, &point).await;
            if !yard.has_fallen() {
                assert_ne!(time, 1, "nobody comes to the point {name} in the act {act:?}");
                break;
            }
        }
        yard.collect(None).await;
        yard.assert_all_is_well().await;
    }
    yard.assert_nothing_is_under_way().await;
}

/// Tells a story with a server that falls in one of its acts.
async fn tell(story: Story, yard: &mut Yard, falls_in: Act, point: &str) {
    yard.begin_story();
    let arm = |act: Act| (act == falls_in).then_some(point);
    yard.serve(arm(Act::Submit)).await;
    let submitted = story.submit(yard).await;
    yard.serve(arm(Act::Build)).await;
    story.build(yard, submitted).await;
    if falls_in == Act::Collect {
        yard.collect(Some(point)).await;
    }
}

#[test]
fn every_point_is_on_some_way() {
    let mut walked = BTreeSet::new();
    for story in [Story::Expo, Story::Pieces, Story::Git] {
        for storage in [Storage::Directory, Storage::Bucket, Storage::Mirrored] {
            walked.extend(story.walks(storage).into_iter().map(|(_, name)| name));
        }
    }
    walked.extend(payloads::WALKS.map(|(_, name)| name));
    assert_eq!(walked, POINTS.iter().map(|(name, _)| *name).collect());
}

macro_rules! stories {
    ($($name:ident: $story:ident, $store:ident, $storage:ident;)+) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            every_point(Story::$story, Store::$store, Storage::$storage).await;
        })+
    };
}

#[tokio::test(flavor = "multi_thread")]
async fn payloads_on_sqlite() {
    payloads::every_point(Store::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn payloads_on_postgres() {
    payloads::every_point(Store::Postgres).await;
}

stories! {
    expo_on_sqlite_and_a_directory: Expo, Sqlite, Directory;
    expo_on_postgres_and_a_directory: Expo, Postgres, Directory;
    expo_on_sqlite_and_a_bucket: Expo, Sqlite, Bucket;
    expo_on_sqlite_and_a_directory_with_a_mirror: Expo, Sqlite, Mirrored;
    pieces_on_sqlite_and_a_directory_with_a_mirror: Pieces, Sqlite, Mirrored;
    pieces_on_sqlite_and_a_directory: Pieces, Sqlite, Directory;
    pieces_on_postgres_and_a_directory: Pieces, Postgres, Directory;
    pieces_on_postgres_and_a_bucket: Pieces, Postgres, Bucket;
    git_on_sqlite: Git, Sqlite, Directory;
    git_on_postgres: Git, Postgres, Directory;
}
