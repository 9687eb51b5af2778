//! Each number counts once: over restarts, lost answers, jumps of the clock, and by several servers.

use std::collections::BTreeMap;

use baton_core::Millis;
use baton_core::statistics::{DAY, ERROR_MAX, HOUR, MINUTE, STEP};
use baton_store::Clock;

use super::{ask, hour, live, of_range, series, sum, sums};
use crate::harness::{On, START, Server, complete, eventually, on_both};
use crate::lossy_store::LossyStore;

on_both!(
    a_restart_loses_nothing_that_was_written,
    time_in_which_no_server_was_up_is_a_gap,
    old_statistics_are_put_together_and_told_the_same,
    a_clock_that_jumps_loses_nothing,
    a_read_while_a_minute_is_written_finds_each_number_once,
    a_write_whose_answer_is_lost_counts_once,
);

async fn a_restart_loses_nothing_that_was_written(on: On) {
    let home = tempfile::tempdir().unwrap();
    let database = match on {
        On::Sqlite => None,
        On::Postgres => Some(baton_testkit::database().await),
    };
    let start = async || {
        Server::with(on, |settings| {
            settings.data = home.path().to_owned();
            settings.database_url = database.as_ref().map(|database| database.url().to_owned());
        })
        .await
    };
    let mut server = start().await;
    server.submit().await;
    live(&server, MINUTE).await;
    server.submit().await;
    // A clean stop writes the minute that was being filled.
    server.stop();
    server.stopped().await;
    drop(server);
    let server = start().await;
    server.clock.advance(2 * MINUTE);
    server.submit().await;
    for range in ["hour", "day", "month"] {
        assert_eq!(sum(&ask(&server, of_range(range)).await, "submitted"), 3.0, "{range}");
    }
}

async fn time_in_which_no_server_was_up_is_a_gap(on: On) {
    let server = Server::start(on).await;
    server.submit().await;
    live(&server, MINUTE).await;
    // As if it had stood still.
    server.clock.advance(20 * MINUTE);
    live(&server, MINUTE).await;
    let told = hour(&server).await;
    let values = |name: &str, from: Millis, until: Millis| -> Vec<Option<f64>> {
        let inside = |at: Millis| (START + from..START + until).contains(&at);
        let pairs = told.times.iter().zip(&series(&told, name).values);
        pairs.filter(|(at, _)| inside(at.0)).map(|(_, value)| *value).collect()
    };
    for name in ["submitted", "ready", "workers.online", "oldest_ms"] {
        assert!(values(name, -30 * MINUTE, -STEP).iter().all(Option::is_none), "{name} before the first start");
        assert!(values(name, 2 * MINUTE, 20 * MINUTE).iter().all(Option::is_none), "{name} while it stood still");
    }
    assert!(values("submitted", STEP, MINUTE).iter().all(|value| *value == Some(0.0)), "nothing is not a gap");
    assert!(values("submitted", 21 * MINUTE + STEP, 22 * MINUTE).iter().all(|value| *value == Some(0.0)));
    assert_eq!(sum(&told, "submitted"), 1.0);
}

async fn old_statistics_are_put_together_and_told_the_same(on: On) {
    let server = Server::start(on).await;
    let mut submitted = 0.0;
    for hours in [0, 1, 2, 20, 30, 26] {
        server.clock.advance(hours * HOUR);
        for _ in 0..3 {
            server.submit().await;
            submitted += 1.0;
            live(&server, MINUTE).await;
        }
    }
    live(&server, MINUTE).await;
    let rows = async |server: &Server| {
        let filter = baton_store::StatisticsFilter { from: 0, before: Millis::MAX, step_ms_max: HOUR };
        server.app.store.statistics(filter, 1_000).await.unwrap()
    };
    assert_eq!(sum(&ask(&server, of_range("month")).await, "submitted"), submitted);
    // Two servers at once, as it were.
    let (one, other) = tokio::join!(server.app.statistics.roll_up(), server.app.statistics.roll_up());
    assert!(one.is_ok() || other.is_ok());
    server.app.statistics.roll_up().await.unwrap();
    let after = rows(&server).await;
    let written = server.metric("baton_statistics_blocks_written_total").await;
    assert!((after.len() as u64) < written, "{written} were written, {} are left", after.len());
    let now = server.clock.local();
    assert!(after.iter().all(|row| row.step_ms == HOUR || row.at > now - 3 * DAY), "old ones are of hours");
    assert!(after.iter().all(|row| row.step_ms >= MINUTE || row.at > now - 4 * HOUR), "those of today are of minutes");
    assert_eq!(sum(&ask(&server, of_range("month")).await, "submitted"), submitted);
    assert_eq!(sum(&ask(&server, of_range("day")).await, "submitted"), 3.0);
    assert_eq!(server.app.statistics.roll_up().await.unwrap(), (0, 0), "nothing is left to do");
    // What nobody can ask for any more goes.
    server.clock.advance(40 * DAY);
    server.app.statistics.pass().await.unwrap();
    for _ in 0..3 {
        server.app.statistics.roll_up().await.unwrap();
    }
    assert!(rows(&server).await.iter().all(|row| row.at > server.clock.local() - 2 * DAY));
}

async fn a_clock_that_jumps_loses_nothing(on: On) {
    let server = Server::start(on).await;
    let mut submitted = 0.0;
    for jump in [0, 5 * MINUTE, -3 * MINUTE, MINUTE, -1_000, 2 * HOUR, -2 * HOUR, 30_000] {
        server.clock.advance(jump);
        server.submit().await;
        submitted += 1.0;
        server.app.statistics.pass().await.unwrap();
    }
    server.clock.advance(3 * HOUR);
    server.app.statistics.pass().await.unwrap();
    assert_eq!(sum(&ask(&server, of_range("day")).await, "submitted"), submitted);
    server.app.statistics.roll_up().await.unwrap();
    assert_eq!(sum(&ask(&server, of_range("day")).await, "submitted"), submitted);
}

async fn a_read_while_a_minute_is_written_finds_each_number_once(on: On) {
    let mut lossy = None;
    let server = Server::over(on, |store| lossy.insert(LossyStore::before(store)).clone()).await;
    let store = lossy.unwrap();
    for _ in 0..5 {
        server.submit().await;
    }
    let told = async || sum(&hour(&server).await, "submitted");
    assert_eq!(told().await, 5.0, "while the minute is being filled");
    let on_the_way = store.hold_statistics_up().await;
    let back = store.hold_statistics_answers_up().await;
    server.clock.advance(MINUTE);
    let app = server.app.clone();
    let writing = tokio::spawn(async move { app.statistics.pass().await });
    assert_eq!(told().await, 5.0, "before it is written");
    drop(on_the_way);
    eventually("it is written", async || store.statistics_carried_out() == 1).await;
    assert_eq!(told().await, 5.0, "it is in the store, and nobody here knows");
    server.submit().await;
    assert_eq!(told().await, 6.0, "the next minute is counted meanwhile");
    drop(back);
    writing.await.unwrap().unwrap();
    assert_eq!(told().await, 6.0, "once it is known");
}

async fn a_write_whose_answer_is_lost_counts_once(on: On) {
    let mut lossy = None;
    let server = Server::over(on, |store| lossy.insert(LossyStore::before(store)).clone()).await;
    let store = lossy.unwrap();
    server.submit().await;
    // More than the loop and the test can try together.
    store.lose_statistics(u32::MAX);
    server.clock.advance(MINUTE);
    assert!(server.app.statistics.pass().await.is_err());
    assert!(server.app.statistics.pass().await.is_err());
    assert!(store.statistics_carried_out() >= 2);
    assert_eq!(sum(&hour(&server).await, "submitted"), 1.0);
    // It stays known until an answer comes, and is there once.
    store.lose_statistics(0);
    server.app.statistics.pass().await.unwrap();
    assert_eq!(sum(&hour(&server).await, "submitted"), 1.0);
    let filter = baton_store::StatisticsFilter { from: 0, before: Millis::MAX, step_ms_max: HOUR };
    assert_eq!(server.app.store.statistics(filter, 100).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_are_summed_and_see_one_depth() {
    let database = baton_testkit::database().await;
    let clock = Clock::manual(START);
    let one = Server::on_database(database.url(), clock.clone()).await;
    let other = Server::on_database(database.url(), clock.clone()).await;
    for _ in 0..3 {
        one.submit().await;
    }
    for _ in 0..4 {
        other.submit().await;
    }
    // Handed out by one, completed at the other.
    let worker = one.worker("w").await;
    let claimed = one.claim(&worker).await;
    clock.advance(1_000);
    other.client.complete(&claimed.run_id, &complete(&claimed.lease)).await.unwrap();
    for _ in 0..12 {
        clock.advance(STEP);
        one.app.statistics.pass().await.unwrap();
        other.app.statistics.pass().await.unwrap();
    }
    for server in [&one, &other] {
        let told = hour(server).await;
        let expected = BTreeMap::from([("submitted", 7.0), ("claimed", 1.0), ("completed", 1.0)]);
        assert_eq!(sums(&told, &["submitted", "claimed", "completed"]), expected);
        let ready: Vec<f64> = series(&told, "ready").values.iter().rev().skip(1).take(5).flatten().copied().collect();
        assert!(ready.len() == 5 && ready.iter().all(|value| *value == 6.0), "{ready:?}");
        let took: Vec<f64> = series(&told, "duration.p50_ms").values.iter().flatten().copied().collect();
        assert!(took.len() == 1 && (took[0] - 1_000.0).abs() <= 1_000.0 * ERROR_MAX, "{took:?}");
        // What the other server counts in the minute that is being filled is not known here yet.
        assert!(told.complete_until.0 <= clock.local() - 10_000);
    }
}
