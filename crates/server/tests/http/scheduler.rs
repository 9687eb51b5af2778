//! What schedules do by themselves: on time, after a downtime, on several servers, with clocks that jump, by their overlap policy.

use std::collections::BTreeSet;

use baton::proto::{CreateSchedule, RunView, ScheduleView, ScheduledRun, Time};
use baton_core::State;
use baton_core::schedule::Overlap;
use baton_store::Clock;

use crate::harness::{On, START, Server, complete, eventually, on_both};

/// The first whole minute after where clocks begin.
const MINUTE: i64 = START - START % 60_000 + 60_000;

fn schedule(id: &str, cron: &str) -> CreateSchedule {
    CreateSchedule {
        namespace: "default".into(),
        id: id.into(),
        cron: cron.into(),
        time_zone: None,
        jitter_ms: None,
        max_catchup: None,
        overlap: None,
        run: ScheduledRun::new("builds", "ios"),
        paused: false,
        note: String::new(),
    }
}

async fn shown(server: &Server, id: &str) -> ScheduleView {
    server.client.schedule("default", id).await.unwrap()
}

async fn fired(server: &Server, id: &str, count: u64) {
    eventually("the schedule fires", async || shown(server, id).await.fired == count).await;
}

async fn runs(server: &Server) -> Vec<RunView> {
    server.client.runs(&baton::RunFilter { limit: Some(1_000), ..Default::default() }).await.unwrap().runs
}

/// Fires that started a run by the rule, in the order in which they did.
async fn started(server: &Server, id: &str) -> Vec<i64> {
    let fires = server.client.schedule_runs("default", id, Some(1_000), None).await.unwrap().fires;
    fires.into_iter().rev().filter(|fire| fire.what == "started").map(|fire| fire.fire_at.0).collect()
}

async fn a_fire_comes_when_it_is_due_and_not_before(on: On) {
    let server = Server::start(on).await;
    let worker = server.worker("w").await;
    let poll = server.parked(&worker).await;
    // Within the lease of a worker that sends no heartbeats here.
    server.client.create_schedule(&schedule("a", "*/5 * * * * *")).await.unwrap();
    server.clock.advance(4_999);
    assert_eq!(shown(&server, "a").await.fired, 0);
    server.clock.advance(1);
    let claimed = crate::harness::soon(poll).await;
    assert_eq!(claimed.len(), 1, "it wakes the worker that waits");
    let view = shown(&server, "a").await;
    let expected = (1, Some(Time(START + 5_000)), Some(&claimed[0].run_id));
    assert_eq!((view.fired, view.last_fire, view.last_run.as_ref()), expected);
    assert_eq!(view.next_fires[0], Time(START + 10_000));
}

async fn fires_of_a_downtime_are_made_up_for_the_newest_of_them(on: On) {
    let server = Server::start(on).await;
    let few = CreateSchedule { max_catchup: Some(3), ..schedule("few", "* * * * *") };
    server.client.create_schedule(&few).await.unwrap();
    server.client.create_schedule(&schedule("all", "*/2 * * * *")).await.unwrap();
    server.clock.advance(MINUTE - START + 9 * 60_000 + 30_000);
    fired(&server, "few", 3).await;
    assert_eq!(started(&server, "few").await, [7, 8, 9].map(|minute| MINUTE + minute * 60_000));
    fired(&server, "all", 5).await;
    // What was too much is said, and counted.
    let fires = server.client.schedule_runs("default", "few", None, None).await.unwrap().fires;
    let missed: Vec<_> = fires.iter().filter(|fire| fire.what == "missed").map(|f| (f.fire_at.0, f.missed)).collect();
    assert_eq!(missed, [(MINUTE + 6 * 60_000, Some(7))]);
    assert_eq!((shown(&server, "few").await.left_out, shown(&server, "all").await.left_out), (7, 0));
    // And it goes on as always.
    server.clock.advance(60_000);
    fired(&server, "few", 4).await;
}

async fn clocks_may_jump_and_no_fire_comes_twice(on: On) {
    let server = Server::start(on).await;
    server.client.create_schedule(&schedule("a", "* * * * *")).await.unwrap();
    server.clock.advance(MINUTE - START);
    fired(&server, "a", 1).await;
    // Back by an hour: nothing until the time comes again that was not there yet.
    server.clock.advance(-3_600_000);
    server.client.create_schedule(&schedule("b", "* * * * *")).await.unwrap();
    server.clock.advance(60_000);
    fired(&server, "b", 1).await;
    assert_eq!(shown(&server, "a").await.fired, 1);
    assert_eq!(shown(&server, "a").await.next_fires[0], Time(MINUTE + 60_000));
    // Forward by two hours: what lies between is made up for, once.
    server.clock.advance(7_200_000);
    let newest = MINUTE + 3_660_000;
    eventually("a catches up", async || shown(&server, "a").await.last_fire == Some(Time(newest))).await;
    eventually("b catches up", async || shown(&server, "b").await.last_fire == Some(Time(newest))).await;
    let of_a = started(&server, "a").await;
    assert_eq!(of_a, (0..=61).map(|minute| MINUTE + minute * 60_000).collect::<Vec<_>>());
    let of_b = started(&server, "b").await;
    assert_eq!(of_b.len(), 101, "one on time, and the newest hundred");
    assert_eq!(of_b.iter().collect::<BTreeSet<_>>().len(), 101);
}

async fn a_fire_is_late_by_the_same_chance(on: On) {
    let server = Server::start(on).await;
    let late = CreateSchedule { jitter_ms: Some(50_000), ..schedule("late", "* * * * *") };
    server.client.create_schedule(&late).await.unwrap();
    server.clock.advance(MINUTE - START + 120_000);
    fired(&server, "late", 3).await;
    let mut fires = server.client.schedule_runs("default", "late", None, None).await.unwrap().fires;
    fires.reverse();
    for fire in fires {
        let run = server.client.run(fire.run_id.as_deref().unwrap()).await.unwrap();
        let expected = fire.fire_at.0 + baton_core::schedule::lateness("late", fire.fire_at.0, 50_000);
        assert_eq!(run.due_at.0, expected.max(run.submitted_at.0));
    }
}

async fn fires_are_left_out_while_the_run_before_lives(on: On) {
    let server = Server::start(on).await;
    let skip = CreateSchedule { overlap: Some(Overlap::Skip), ..schedule("a", "* * * * *") };
    server.client.create_schedule(&skip).await.unwrap();
    server.clock.advance(MINUTE - START);
    fired(&server, "a", 1).await;
    server.clock.advance(60_000);
    eventually("it is left out", async || shown(&server, "a").await.left_out == 1).await;
    let worker = server.worker("w").await;
    let claimed = server.claim(&worker).await;
    server.client.complete(&claimed.run_id, &complete(&claimed.lease)).await.unwrap();
    server.clock.advance(60_000);
    fired(&server, "a", 2).await;
    assert_eq!(started(&server, "a").await, [MINUTE, MINUTE + 120_000]);
}

async fn one_fire_waits_for_the_end_of_the_run_before_it(on: On) {
    let server = Server::start(on).await;
    let buffer = CreateSchedule { overlap: Some(Overlap::BufferOne), ..schedule("a", "* * * * *") };
    server.client.create_schedule(&buffer).await.unwrap();
    server.clock.advance(MINUTE - START);
    fired(&server, "a", 1).await;
    server.clock.advance(120_000);
    eventually("one is left out", async || shown(&server, "a").await.left_out == 1).await;
    assert_eq!(shown(&server, "a").await.waiting_fire, Some(Time(MINUTE + 60_000)));
    let worker = server.worker("w").await;
    let claimed = server.claim(&worker).await;
    server.client.complete(&claimed.run_id, &complete(&claimed.lease)).await.unwrap();
    // The next look finds it; no fire is due by then.
    server.clock.advance(1_000);
    fired(&server, "a", 2).await;
    assert_eq!(started(&server, "a").await, [MINUTE, MINUTE + 60_000]);
    assert_eq!(shown(&server, "a").await.waiting_fire, None);
}

async fn the_run_before_is_cancelled(on: On) {
    let server = Server::start(on).await;
    let cancel = CreateSchedule { overlap: Some(Overlap::CancelPrevious), ..schedule("a", "*/5 * * * * *") };
    server.client.create_schedule(&cancel).await.unwrap();
    server.clock.advance(5_000);
    fired(&server, "a", 1).await;
    let first = shown(&server, "a").await.last_run.unwrap();
    server.clock.advance(5_000);
    fired(&server, "a", 2).await;
    assert_eq!(server.state(&first).await, State::Cancelled);
    // One that a worker holds is told, and has its grace time.
    let worker = server.worker("w").await;
    let held = server.claim(&worker).await;
    server.clock.advance(5_000);
    fired(&server, "a", 3).await;
    assert!(server.client.run(&held.run_id).await.unwrap().cancel_by.is_some());
    assert_eq!(runs(&server).await.len(), 3);
}

async fn a_full_queue_puts_fires_off(on: On) {
    let server = Server::start(on).await;
    let limits = baton::proto::QueueLimits { backlog_max: Some(Some(1)), ..Default::default() };
    server.client.limit_queue("default", "builds", &limits).await.unwrap();
    let waiting = server.submit().await;
    server.client.create_schedule(&schedule("a", "* * * * *")).await.unwrap();
    server
        .client
        .create_schedule(&CreateSchedule { run: ScheduledRun::new("other", "ios"), ..schedule("b", "* * * * *") })
        .await
        .unwrap();
    server.clock.advance(MINUTE - START);
    fired(&server, "b", 1).await;
    assert_eq!(shown(&server, "a").await.fired, 0);
    server.client.cancel(&waiting).await.unwrap();
    server.clock.advance(6_000);
    fired(&server, "a", 1).await;
    assert_eq!(started(&server, "a").await, [MINUTE], "late, but not lost");
}

async fn a_run_has_the_time_that_the_schedule_gives_it(on: On) {
    let server = Server::start(on).await;
    let run = ScheduledRun { run_timeout_ms: Some(5_000), ..ScheduledRun::new("builds", "ios") };
    server.client.create_schedule(&CreateSchedule { run, ..schedule("a", "@hourly") }).await.unwrap();
    server.clock.advance(3_600_000 - START % 3_600_000);
    fired(&server, "a", 1).await;
    let run = shown(&server, "a").await.last_run.unwrap();
    assert_eq!(server.state(&run).await, State::Pending);
    server.clock.advance(5_001);
    eventually("its time is over", async || server.state(&run).await == State::Failed).await;
}

/// On the store's own clock: a fire of each second starts in its first moments.
async fn on_time(on: On) {
    let server = Server::real(on, |_| {}).await;
    server.client.create_schedule(&schedule("a", "* * * * * *")).await.unwrap();
    eventually("it fires a few times", async || shown(&server, "a").await.fired >= 4).await;
    let fires = server.client.schedule_runs("default", "a", None, None).await.unwrap().fires;
    let late: Vec<i64> = fires.iter().map(|fire| fire.at.0 - fire.fire_at.0).collect();
    assert!(late.iter().all(|ms| *ms >= 0), "never early: {late:?}");
    // The machine may be busy with other tests; one that looked now and then would be half a second late on average.
    assert!(late.iter().min().is_some_and(|ms| *ms < 50), "{late:?}");
}

on_both!(
    a_fire_comes_when_it_is_due_and_not_before,
    fires_of_a_downtime_are_made_up_for_the_newest_of_them,
    clocks_may_jump_and_no_fire_comes_twice,
    a_fire_is_late_by_the_same_chance,
    fires_are_left_out_while_the_run_before_lives,
    one_fire_waits_for_the_end_of_the_run_before_it,
    the_run_before_is_cancelled,
    a_full_queue_puts_fires_off,
    a_run_has_the_time_that_the_schedule_gives_it,
    on_time,
);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_start_one_run_for_each_fire() {
    let database = baton_testkit::database().await;
    let clock = Clock::manual(START);
    let mut servers = Vec::new();
    for _ in 0..3 {
        servers.push(Server::on_database(database.url(), clock.clone()).await);
    }
    for (id, overlap) in [("a", Overlap::Allow), ("b", Overlap::Allow), ("c", Overlap::Skip), ("d", Overlap::BufferOne)]
    {
        let wanted = CreateSchedule { overlap: Some(overlap), ..schedule(id, "* * * * *") };
        servers[0].client.create_schedule(&wanted).await.unwrap();
    }
    clock.advance(MINUTE - START);
    for round in 1..=20u64 {
        eventually("all fire", async || {
            let mut settled = 0;
            for id in ["a", "b", "c", "d"] {
                let view = shown(&servers[round as usize % 3], id).await;
                settled += u64::from(view.fired + view.left_out + u64::from(view.waiting_fire.is_some()) == round);
            }
            settled == 4
        })
        .await;
        if round < 20 {
            // All servers look at once.
            clock.advance(60_000);
        }
    }
    for id in ["a", "b"] {
        let expected: Vec<i64> = (0..20).map(|minute| MINUTE + minute * 60_000).collect();
        assert_eq!(started(&servers[1], id).await, expected, "{id}");
    }
    assert_eq!((started(&servers[2], "c").await.len(), started(&servers[2], "d").await.len()), (1, 1));
    assert_eq!(runs(&servers[1]).await.len(), 20 + 20 + 1 + 1, "and nobody started another");
}
