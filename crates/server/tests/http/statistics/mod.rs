//! /api/v1/statistics

mod counting;
mod writing;

use std::collections::BTreeMap;

use baton::StatisticsFilter;
use baton::proto::{Series, Statistics, SubmitRun};
use baton_core::Millis;
use baton_core::statistics::STEP;

use crate::harness::{Server, run};

async fn ask(server: &Server, filter: StatisticsFilter) -> Statistics {
    server.client.statistics(&filter).await.unwrap()
}

async fn hour(server: &Server) -> Statistics {
    ask(server, StatisticsFilter::default()).await
}

fn of_range(range: &str) -> StatisticsFilter {
    StatisticsFilter { range: Some(range.into()), ..StatisticsFilter::default() }
}

/// The sum of a series without a subject.
fn sum(statistics: &Statistics, name: &str) -> f64 {
    series(statistics, name).values.iter().flatten().sum()
}

fn series<'a>(statistics: &'a Statistics, name: &str) -> &'a Series {
    let found = statistics.series.iter().find(|series| series.name == name);
    found.unwrap_or_else(|| panic!("no {name} in {:?}", statistics.series))
}

/// What the sums of some series are.
fn sums<'a>(statistics: &Statistics, names: &[&'a str]) -> BTreeMap<&'a str, f64> {
    names.iter().map(|name| (*name, sum(statistics, name))).collect()
}

/// Goes on for so long, as the loop does: a step at a time.
async fn live(server: &Server, ms: Millis) {
    for _ in 0..ms / STEP {
        server.clock.advance(STEP);
        server.app.statistics.pass().await.unwrap();
    }
}

fn to(queue: &str) -> SubmitRun {
    SubmitRun { queue: queue.into(), ..run() }
}
