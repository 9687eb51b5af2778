//! Deliveries: signed, tried again, replayed, held back; and by several servers.

use std::collections::BTreeSet;

use baton::proto::{ChangeWebhook, PauseQueue, ReplayWebhook, SubmitRun, WebhookFilter};
use baton_store::Clock;
use serde_json::json;

use super::receiver::{Call, Receiver, attempted, filter, local, made, server, webhook};
use crate::harness::{On, START, Server, eventually, on_both, refusal};

on_both!(
    an_event_is_delivered_once_and_signed,
    a_failed_delivery_is_tried_again_and_then_dies,
    dead_deliveries_are_replayed,
    a_receiver_that_is_gone_disables_its_webhook,
    a_receiver_that_says_when_to_come_back_is_left_alone,
    a_slow_receiver_does_not_hold_up_others,
    a_paused_webhook_is_told_that_it_has_missed_something,
    only_what_the_filter_names_is_delivered,
);

/// Submits a run, and waits until its event is written.
async fn submit_and_record(server: &Server) {
    let last = async || server.app.store.events_after(i64::MAX - 1, 1).await.unwrap().last;
    let before = last().await;
    server.submit().await;
    eventually("the event is written", async || last().await > before).await;
}

async fn an_event_is_delivered_once_and_signed(on: On) {
    let (server, receiver) = (server(on).await, Receiver::start().await);
    let made = made(&server, &receiver).await;
    let secret = made.secret.clone().unwrap();
    let run = server.submit().await;
    let call = receiver.called(1).await.remove(0);
    assert_eq!(
        (call.path.as_str(), call.header("content-type")),
        ("/hook?token=t0ken", "application/cloudevents+json")
    );
    assert_eq!(call.header("webhook-timestamp"), (START / 1_000).to_string());
    assert!(call.is_signed_with(&secret) && !call.header("webhook-signature").contains(' '));
    let event = call.event();
    assert_eq!((&event["specversion"], &event["id"]), (&json!("1.0"), &json!(call.id())));
    assert_eq!((&event["type"], &event["subject"]), (&json!("dev.baton.run.submitted"), &json!(run)));
    assert!(event["source"].as_str().unwrap().starts_with("/baton/"), "{event}");
    assert_eq!((&event["data"]["run_id"], &event["data"]["kind"]), (&json!(run), &json!("run.submitted")));
    assert_eq!(event["time"], event["data"]["at"]);
    let delivery = attempted(&server, &made.id, 1).await;
    assert_eq!((delivery.state.as_str(), delivery.id.as_str()), ("delivered", call.id()));
    assert_eq!((delivery.attempts[0].status, delivery.attempts[0].response.as_deref()), (Some(200), Some("said 200")));
    // Whatever passes from now on finds nothing to do.
    server.clock.advance(3_600_000);
    let second = server.submit().await;
    let calls = receiver.called(2).await;
    assert_eq!(calls[1].event()["subject"], json!(second));
    let seen = server.client.webhook(&made.id).await.unwrap();
    assert_eq!((seen.state.as_str(), seen.dead, seen.missed), ("active", 0, 0));
}

async fn a_failed_delivery_is_tried_again_and_then_dies(on: On) {
    let server = Server::with(on, |settings| {
        local(settings);
        settings.webhook_backoff = "5s,5m".into();
    })
    .await;
    let receiver = Receiver::start().await;
    for status in [500, 404, 502] {
        receiver.answer(status, &[]);
    }
    let made = made(&server, &receiver).await;
    server.submit().await;
    receiver.called(1).await;
    let first = attempted(&server, &made.id, 1).await;
    let wait = first.next_attempt_at.unwrap().0 - START;
    assert!((5_000..=6_000).contains(&wait), "{wait}");
    let failing = server.client.webhook(&made.id).await.unwrap();
    assert_eq!((failing.waiting, failing.failing_since.map(|at| at.0)), (1, Some(START)));
    server.clock.advance(6_000);
    receiver.called(2).await;
    let second = attempted(&server, &made.id, 2).await;
    let wait = second.next_attempt_at.unwrap().0 - START - 6_000;
    assert!((300_000..=360_000).contains(&wait), "{wait}");
    server.clock.advance(360_000);
    let calls = receiver.called(3).await;
    let dead = attempted(&server, &made.id, 3).await;
    assert_eq!((dead.state.as_str(), dead.next_attempt_at), ("dead", None));
    let statuses: Vec<_> = dead.attempts.iter().map(|attempt| (attempt.number, attempt.status.unwrap())).collect();
    assert_eq!(statuses, [(1, 500), (2, 404), (3, 502)]);
    let ids: BTreeSet<_> = calls.iter().map(|call| (call.id().to_owned(), call.body.clone())).collect();
    assert_eq!(ids.len(), 1, "it is the same however often it is tried");
    let stamps: BTreeSet<_> = calls.iter().map(|call| call.header("webhook-timestamp").to_owned()).collect();
    assert_eq!(stamps.len(), 3, "and signed again each time");
    let view = server.client.webhook(&made.id).await.unwrap();
    assert_eq!((view.waiting, view.dead, view.state.as_str()), (0, 1, "active"));
}

async fn dead_deliveries_are_replayed(on: On) {
    let server = Server::with(on, |settings| {
        local(settings);
        settings.webhook_backoff = "0s".into();
    })
    .await;
    let receiver = Receiver::start().await;
    (0..4).for_each(|_| receiver.answer(500, &[]));
    let made = made(&server, &receiver).await;
    let all_dead = async || server.client.webhook(&made.id).await.unwrap().dead == 2;
    server.submit().await;
    server.submit().await;
    eventually("both are dead", async || {
        // What is tried again at once is tried a moment later.
        server.clock.advance(100);
        all_dead().await
    })
    .await;
    receiver.called(4).await;
    let dead = server.client.webhook_deliveries(&made.id, Some("dead"), None, None).await.unwrap().deliveries;
    let one = server.client.replay_webhook_delivery(&made.id, &dead[0].id).await.unwrap();
    assert_eq!((one.state.as_str(), one.id.as_str()), ("waiting", dead[0].id.as_str()));
    assert_eq!(receiver.called(5).await[4].id(), dead[0].id);
    let later = ReplayWebhook { since: Some(baton::proto::Time(server.clock.local() + 1)) };
    let none = server.client.replay_webhook(&made.id, &later).await.unwrap();
    assert_eq!((none.replayed, none.dead), (0, 1));
    let rest = server.client.replay_webhook(&made.id, &ReplayWebhook::default()).await.unwrap();
    assert_eq!((rest.replayed, rest.dead), (1, 0));
    assert_eq!(receiver.called(6).await[5].id(), dead[1].id);
    let unknown = server.client.replay_webhook_delivery(&made.id, "018bcfe5-6800-7000-8000-000000000000").await;
    assert_eq!(refusal(unknown), "404 not_found");
    assert_eq!(refusal(server.client.replay_webhook_delivery(&made.id, "none").await), "404 not_found");
}

async fn a_receiver_that_is_gone_disables_its_webhook(on: On) {
    let (server, receiver) = (server(on).await, Receiver::start().await);
    receiver.answer(410, &[]);
    let made = made(&server, &receiver).await;
    server.submit().await;
    let is_disabled = async || server.client.webhook(&made.id).await.unwrap().state == "disabled";
    eventually("the webhook is disabled", is_disabled).await;
    let disabled = server.client.webhook(&made.id).await.unwrap();
    assert!(disabled.why.as_ref().unwrap().contains("410"), "{disabled:?}");
    let audit = async || server.client.audit_log(Some(50), None).await.unwrap().lines;
    let is_written =
        async || audit().await.iter().any(|line| line.action == "webhook.disable" && line.subject == made.id);
    eventually("it is written down", is_written).await;
    submit_and_record(&server).await;
    assert_eq!(server.client.resume_webhook(&made.id).await.unwrap().state, "active");
    let told = receiver.called(2).await.remove(1);
    assert_eq!((told.kind().as_str(), &told.event()["data"]["reason"]), ("dev.baton.missed", &json!("paused")));
    server.submit().await;
    assert_eq!(receiver.called(3).await[2].kind(), "dev.baton.run.submitted");
}

async fn a_receiver_that_says_when_to_come_back_is_left_alone(on: On) {
    let (server, receiver) = (server(on).await, Receiver::start().await);
    receiver.answer(503, &[("retry-after", "120")]);
    let made = made(&server, &receiver).await;
    server.submit().await;
    attempted(&server, &made.id, 1).await;
    let held = server.client.webhook(&made.id).await.unwrap();
    assert_eq!(held.held_until.map(|at| at.0), Some(START + 120_000));
    server.submit().await;
    eventually("both wait", async || server.client.webhook(&made.id).await.unwrap().waiting == 2).await;
    server.clock.advance(119_000);
    let other = Receiver::start().await;
    server.client.create_webhook(&webhook("other", &other.url(), &["run.submitted"])).await.unwrap();
    server.submit().await;
    // The other one has heard of it: the pass that delivered that has looked at this one, too.
    other.called(1).await;
    receiver.called(1).await;
    server.clock.advance(1_000);
    eventually("all are delivered", async || receiver.calls().len() == 4).await;
}

async fn a_slow_receiver_does_not_hold_up_others(on: On) {
    let server = server(on).await;
    let (slow, quick) = (Receiver::with_permits(0).await, Receiver::start().await);
    server.client.create_webhook(&webhook("slow", &slow.url(), &["run.submitted"])).await.unwrap();
    server.client.create_webhook(&webhook("quick", &quick.url(), &["run.submitted"])).await.unwrap();
    for _ in 0..20 {
        server.submit().await;
    }
    quick.called(20).await;
    assert!((1..=4).contains(&slow.calls().len()), "{} calls at once", slow.calls().len());
    slow.desk.permits.add_permits(100);
    slow.called(20).await;
}

async fn a_paused_webhook_is_told_that_it_has_missed_something(on: On) {
    let (server, receiver) = (server(on).await, Receiver::start().await);
    let made = made(&server, &receiver).await;
    assert_eq!(server.client.pause_webhook(&made.id).await.unwrap().state, "paused");
    submit_and_record(&server).await;
    assert_eq!(server.client.resume_webhook(&made.id).await.unwrap().state, "active");
    let run = server.submit().await;
    let calls = receiver.called(2).await;
    let told: BTreeSet<_> =
        calls.iter().map(|call| (call.kind(), call.event()["subject"].clone().to_string())).collect();
    let expected = [
        ("dev.baton.missed".to_owned(), "null".to_owned()),
        ("dev.baton.run.submitted".to_owned(), format!("\"{run}\"")),
    ];
    assert_eq!(told, BTreeSet::from(expected));
}

async fn only_what_the_filter_names_is_delivered(on: On) {
    let (server, receiver) = (server(on).await, Receiver::start().await);
    let made = made(&server, &receiver).await;
    let wanted = WebhookFilter { queue: Some("other".into()), ..filter(&["run.submitted"]) };
    let change = ChangeWebhook { filter: Some(wanted.clone()), url: None };
    assert_eq!(server.client.change_webhook(&made.id, &change).await.unwrap().filter, wanted);
    server.submit().await;
    let run = server.submit_run(&SubmitRun::new("other", "ios")).await;
    assert_eq!(receiver.called(1).await[0].event()["subject"], json!(run));
    let change = ChangeWebhook { filter: Some(filter(&["queue"])), url: Some(receiver.url() + "&b=c") };
    server.client.change_webhook(&made.id, &change).await.unwrap();
    server.submit_run(&SubmitRun::new("other", "ios")).await;
    server.client.pause_queue("default", "other", &PauseQueue::default()).await.unwrap();
    let call = receiver.called(2).await.remove(1);
    assert_eq!((call.kind().as_str(), call.path.as_str()), ("dev.baton.queue.paused", "/hook?token=t0ken&b=c"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_servers_deliver_each_event_once_and_a_restart_loses_nothing() {
    let database = baton_testkit::database().await;
    let clock = Clock::manual(START);
    let mut first = Server::on_database_with(database.url(), clock.clone(), local).await;
    let second = Server::on_database_with(database.url(), clock.clone(), local).await;
    let receiver = Receiver::start().await;
    made(&first, &receiver).await;
    // The other one has to hear that somebody listens for these.
    eventually("both write", async || second.app.events.written() == first.app.events.written()).await;
    // What comes in the first seconds is nothing that was missed.
    let mut runs = BTreeSet::new();
    for _ in 0..20 {
        runs.insert(first.submit().await);
        runs.insert(second.submit().await);
    }
    let subject = |call: &Call| call.event()["subject"].as_str().unwrap_or_default().to_owned();
    let calls = receiver.called(40).await;
    assert_eq!(calls.iter().map(subject).collect::<BTreeSet<_>>(), runs, "each once");
    first.stop();
    first.stopped().await;
    runs.insert(second.submit().await);
    let third = Server::on_database_with(database.url(), clock.clone(), local).await;
    runs.insert(third.submit().await);
    let calls = receiver.called(42).await;
    assert_eq!(calls.iter().map(subject).collect::<BTreeSet<_>>(), runs, "and nothing was missed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_webhooks_and_nothing_to_deliver_asks_nothing_of_its_store() {
    let (server, receiver) = (server(On::Sqlite).await, Receiver::start().await);
    let report = async || server.app.loops.all().get("webhooks").cloned();
    let made = made(&server, &receiver).await;
    server.submit().await;
    attempted(&server, &made.id, 1).await;
    // How far it has come is written down after half a minute, and then there is nothing left.
    let is_quiet = async || {
        server.clock.advance(5_000);
        report().await.is_some_and(|report| report.last == "nothing is to be done")
    };
    eventually("nothing is to be done", is_quiet).await;
    let before = report().await.unwrap().passes;
    let has_passed = async || {
        server.clock.advance(5_000);
        let report = report().await.unwrap();
        assert_eq!(report.last, "nothing is to be done");
        report.passes > before + 3
    };
    eventually("it has passed", has_passed).await;
}
