//! Schedules on servers that are killed: each fire starts exactly one run, and none is left out.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use baton::proto::{CreateSchedule, PauseSchedule, ScheduleFire, ScheduledRun};
use baton::{Client, RunFilter};
use baton_core::schedule::Overlap;
use baton_testkit::Baton;
use tokio::time::{Instant, sleep, sleep_until};

use crate::on_both_stores;
use crate::site::{KIND, Leases, QUEUE, Site, Store, client, serve};
use crate::wait::{eventually, until_answered};

/// How long servers are killed at random.
const CHAOS: Duration = Duration::from_secs(12);
/// How long everybody is away; several fires fall into it.
const DOWNTIME: Duration = Duration::from_secs(4);

fn schedule(id: &str, cron: &str) -> CreateSchedule {
    CreateSchedule {
        namespace: "default".into(),
        id: id.into(),
        cron: cron.into(),
        time_zone: Some("Europe/Berlin".into()),
        jitter_ms: None,
        max_catchup: None,
        overlap: Some(Overlap::Allow),
        run: ScheduledRun::new(QUEUE, KIND),
        paused: false,
        note: String::new(),
    }
}

async fn history(client: &Client, id: &str) -> Vec<ScheduleFire> {
    let (mut all, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let page = until_answered(|| client.schedule_runs("default", id, Some(1_000), cursor.as_deref())).await;
        let page = page.expect("a good question");
        all.extend(page.fires);
        match page.next_cursor {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    all.reverse();
    all
}

/// Stops a schedule and looks at everything it has done: a fire each `step_ms`, each with a run of its own.
async fn verify(client: &Client, id: &str, step_ms: i64) -> BTreeSet<String> {
    let pause = PauseSchedule::default();
    let paused = until_answered(|| client.pause_schedule("default", id, &pause)).await.expect("it is there");
    let fires = history(client, id).await;
    assert_eq!((paused.fired, paused.left_out), (fires.len() as u64, 0), "{id}");
    let mut at: Vec<i64> = fires.iter().map(|fire| fire.fire_at.0).collect();
    at.sort_unstable();
    let steps: BTreeSet<i64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(steps, [step_ms].into(), "{id}: no fire twice and none left out of {at:?}");
    assert!(fires.iter().all(|fire| fire.at.0 >= fire.fire_at.0), "{id}: none is early");
    let runs: BTreeSet<String> = fires.iter().filter_map(|fire| fire.run_id.clone()).collect();
    assert_eq!(runs.len(), fires.len(), "{id}: each has a run of its own");
    runs
}

async fn all_runs(client: &Client) -> BTreeSet<String> {
    let (mut all, mut cursor) = (BTreeSet::new(), None);
    loop {
        let filter = RunFilter { limit: Some(1_000), cursor, ..RunFilter::default() };
        let page = until_answered(|| client.runs(&filter)).await.expect("a good question");
        all.extend(page.runs.into_iter().map(|run| run.id));
        match page.next_cursor {
            Some(next) => cursor = Some(next),
            None => return all,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_fire_starts_one_run_while_three_servers_are_killed_at_random() {
    let database = baton_testkit::database().await;
    let homes = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut servers: Vec<Baton> = Vec::new();
    for home in &homes {
        servers.push(serve(home.path(), Some(database.url()), Leases::LONG).await);
    }
    let first = client(&servers[0].url());
    let rules = [("a", "* * * * * *", 1_000), ("b", "*/2 * * * * *", 2_000), ("c", "* * * * * *", 1_000)];
    for (id, cron, _) in rules {
        first.create_schedule(&schedule(id, cron)).await.unwrap();
    }
    let (until, dice) = (Instant::now() + CHAOS, RandomState::new());
    let mut kills = 0u64;
    while Instant::now() < until {
        let die = dice.hash_one(kills);
        // At any moment of a second, so that fires are met before, between and after their writes.
        sleep(Duration::from_millis(die % 600)).await;
        servers[(die >> 32) as usize % 3].restart().await;
        kills += 1;
    }
    assert!(kills > 5, "only {kills} kills");
    let mut started = BTreeSet::new();
    for (id, _, step_ms) in rules {
        let runs = verify(&first, id, step_ms).await;
        assert!(runs.len() > 4, "{id}: only {} fires", runs.len());
        started.extend(runs);
    }
    assert_eq!(all_runs(&first).await, started, "nobody started another");
}

async fn fires_of_a_downtime_are_made_up_for(store: Store) {
    let mut site = Site::start(store, Leases::LONG).await;
    let client = site.client();
    client.create_schedule(&schedule("a", "* * * * * *")).await.unwrap();
    let fired =
        async || client.schedule("default", "a").await.ok().filter(|shown| shown.fired >= 2).map(|shown| shown.fired);
    let before = eventually("it fires", fired).await;
    site.server.kill9();
    // The time itself is what has to pass here.
    sleep_until(Instant::now() + DOWNTIME).await;
    site.server.restart().await;
    let missed = DOWNTIME.as_secs();
    eventually("it catches up", async || {
        let shown = client.schedule("default", "a").await.ok()?;
        (shown.fired >= before + missed).then_some(())
    })
    .await;
    let runs = verify(&client, "a", 1_000).await;
    assert_eq!(all_runs(&client).await, runs);
}

on_both_stores!(fires_of_a_downtime_are_made_up_for);
