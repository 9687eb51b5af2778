//! `kill -9` of the server, of agents and of a provider's script at every step of a claim and a release.
//!
//! After each fall the store and the operating system have the same machines, as many as the pool is to keep, and a claim that waited is filled
//! or has failed and can be repeated. Most of the time is spent waiting, so many grounds are played on at once.

mod agents;
mod fleet;
mod server;

use std::collections::BTreeSet;
use std::pin::Pin;

use baton_server::crash::{AGENT_POINTS, POOL_POINTS};
use tokio::task::{JoinSet, LocalSet};

use crate::site::Store;
use server::Act;

/// The points of the server that are reached with machines of the provider `local`, act by act; some the second time as well.
static LOCAL: [(Act, &[&str]); 6] = [
    (
        Act::Create,
        &["order.written", "local.noted", "local.noted:2", "local.started", "local.started:2", "order.created"],
    ),
    (Act::Create, &["order.recorded", "runner.joined", "runner.joined:2", "signal.noted", "signal.noted:2"]),
    (
        Act::Claim,
        &["claim.opened", "claim.taken", "claim.taken:2", "signal.noted", "signal.noted:3", "claim.committed"],
    ),
    (Act::Impossible, &["claim.failed"]),
    (Act::Release, &["claim.released", "signal.noted:2", "signal.noted:3", "pool.expired"]),
    (Act::Shrink, &["keeper.ended", "machines.terminated", "machines.gone"]),
];

/// The points of the server that are reached with machines of a script.
static FLEET: [&str; 6] =
    ["order.written", "order.created", "order.recorded", "order.failed", "machines.terminated", "machines.gone"];

/// On a machine that has too much to do a way may be another one: a machine's agent joins before the answer about it is there, or is given up.
const ATTEMPTS: usize = 3;
/// Grounds of one store at once.
const GROUNDS_MAX: usize = 6;
/// So many stories are told on one ground, one after the other.
const STORIES_MAX: usize = 3;

async fn every_point(store: Store) {
    let mut stories: Vec<LocalBoxed> = Vec::new();
    for (act, points) in LOCAL {
        for points in points.chunks(STORIES_MAX) {
            stories.push(Box::pin(server::every_point(store, act, points)));
        }
    }
    let names: Vec<&str> = AGENT_POINTS.iter().map(|(name, _)| *name).collect();
    for points in names.chunks(STORIES_MAX) {
        stories.push(Box::pin(agents::every_point(store, points.to_vec())));
    }
    for points in FLEET.chunks(STORIES_MAX) {
        stories.push(Box::pin(fleet::every_point(store, points)));
    }
    for falls in fleet::FALLS.chunks(STORIES_MAX) {
        stories.push(Box::pin(fleet::every_fall(store, falls)));
    }
    LocalSet::new().run_until(play(stories)).await;
}

type LocalBoxed = Pin<Box<dyn Future<Output = ()>>>;

/// Plays on a few grounds at once: while nothing happens on one, something does on another.
async fn play(mut stories: Vec<LocalBoxed>) {
    let mut grounds = JoinSet::new();
    while !stories.is_empty() || !grounds.is_empty() {
        if let Some(story) = stories.pop_if(|_| grounds.len() < GROUNDS_MAX) {
            grounds.spawn_local(story);
        } else if let Some(Err(error)) = grounds.join_next().await {
            std::panic::resume_unwind(error.into_panic());
        }
    }
}

#[test]
fn every_point_is_on_some_way() {
    let local = LOCAL.iter().flat_map(|(_, points)| points.iter());
    let walked: BTreeSet<&str> =
        local.chain(&FLEET).map(|point| point.split_once(':').map_or(*point, |(name, _)| name)).collect();
    assert_eq!(walked, POOL_POINTS.iter().map(|(name, _)| *name).collect());
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_on_sqlite() {
    every_point(Store::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_on_postgres() {
    every_point(Store::Postgres).await;
}
