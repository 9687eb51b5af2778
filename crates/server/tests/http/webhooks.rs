//! /api/v1/webhooks, with a receiver on this machine.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::response::IntoResponse;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use baton::proto::{
    ChangeWebhook, CreateWebhook, PauseQueue, ReplayWebhook, RotateWebhook, SubmitRun, WebhookDelivery, WebhookFilter,
    WebhookView,
};
use baton_core::webhooks::signature;
use baton_server::webhooks::HostResolver;
use baton_server::{Settings, webhooks::WEBHOOKS_PER_NAMESPACE_MAX};
use baton_store::Clock;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::harness::{On, START, Server, eventually, on_both, refusal, run};

on_both!(
    an_event_is_delivered_once_and_signed,
    a_failed_delivery_is_tried_again_and_then_dies,
    dead_deliveries_are_replayed,
    a_receiver_that_is_gone_disables_its_webhook,
    a_receiver_that_says_when_to_come_back_is_left_alone,
    a_redirect_is_not_followed,
    a_slow_receiver_does_not_hold_up_others,
    a_host_that_becomes_private_is_not_called,
    the_address_that_was_checked_is_the_one_that_is_called,
    two_secrets_sign_while_one_takes_the_place_of_the_other,
    a_paused_webhook_is_told_that_it_has_missed_something,
    only_what_the_filter_names_is_delivered,
    a_namespace_hears_nothing_of_another_and_sees_nothing_of_its_webhooks,
    the_secret_is_shown_once_and_kept_sealed,
    the_same_webhook_is_made_once,
    a_webhook_that_makes_no_sense_is_refused,
    a_test_says_what_the_receiver_answered,
    there_are_only_so_many_in_a_namespace,
    what_is_done_to_webhooks_is_written_down,
);

/// A call as the receiver saw it.
#[derive(Clone, Debug)]
struct Call {
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

impl Call {
    fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    fn id(&self) -> &str {
        self.header("webhook-id")
    }

    fn event(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn kind(&self) -> String {
        self.event()["type"].as_str().unwrap().to_owned()
    }

    /// Whether one of the signatures is made with this secret.
    fn is_signed_with(&self, secret: &str) -> bool {
        let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
        let at = self.header("webhook-timestamp").parse().unwrap();
        let signed = format!("v1,{}", STANDARD.encode(signature(&key, self.id(), at, &self.body)));
        self.header("webhook-signature").split(' ').any(|one| one == signed)
    }
}

type Scripted = (u16, Vec<(&'static str, String)>);

#[derive(Debug)]
struct Desk {
    calls: Mutex<Vec<Call>>,
    /// What is answered next; 200 when nothing is left.
    answers: Mutex<VecDeque<Scripted>>,
    /// Each answer takes one.
    permits: Semaphore,
}

/// A receiver of webhooks.
#[derive(Clone)]
struct Receiver {
    address: SocketAddr,
    desk: Arc<Desk>,
}

impl Receiver {
    async fn start() -> Receiver {
        Receiver::with_permits(Semaphore::MAX_PERMITS).await
    }

    /// One that does not answer before it is let.
    async fn with_permits(permits: usize) -> Receiver {
        let desk = Desk { calls: Mutex::default(), answers: Mutex::default(), permits: Semaphore::new(permits) };
        let desk = Arc::new(desk);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(take).with_state(desk.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Receiver { address, desk }
    }

    fn url(&self) -> String {
        format!("http://{}/hook?token=t0ken", self.address)
    }

    fn answer(&self, status: u16, headers: &[(&'static str, &str)]) {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self.desk.answers.lock().unwrap().push_back((status, headers));
    }

    fn calls(&self) -> Vec<Call> {
        self.desk.calls.lock().unwrap().clone()
    }

    async fn called(&self, times: usize) -> Vec<Call> {
        eventually("the receiver is called", async || self.calls().len() >= times).await;
        let calls = self.calls();
        assert_eq!(calls.len(), times, "{calls:?}");
        calls
    }
}

async fn take(State(desk): State<Arc<Desk>>, request: Request) -> impl IntoResponse {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let path = head.uri.path_and_query().unwrap().to_string();
    desk.calls.lock().unwrap().push(Call { path, headers: head.headers, body });
    desk.permits.acquire().await.unwrap().forget();
    let (status, headers) = desk.answers.lock().unwrap().pop_front().unwrap_or((200, vec![]));
    let mut answered = (StatusCode::from_u16(status).unwrap(), format!("said {status}")).into_response();
    for (name, value) in headers {
        answered.headers_mut().insert(name, value.parse().unwrap());
    }
    answered
}

fn local(settings: &mut Settings) {
    settings.webhook_allow = "127.0.0.1".into();
}

async fn server(on: On) -> Server {
    Server::with(on, local).await
}

fn webhook(name: &str, url: &str, kinds: &[&str]) -> CreateWebhook {
    CreateWebhook {
        name: name.into(),
        namespace: Some("default".into()),
        url: url.into(),
        filter: filter(kinds),
        secret: None,
    }
}

fn filter(kinds: &[&str]) -> WebhookFilter {
    WebhookFilter { kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(), ..WebhookFilter::default() }
}

/// A webhook that hears of submitted runs.
async fn made(server: &Server, receiver: &Receiver) -> WebhookView {
    server.client.create_webhook(&webhook("ci", &receiver.url(), &["run.submitted"])).await.unwrap()
}

async fn deliveries(server: &Server, id: &str) -> Vec<WebhookDelivery> {
    server.client.webhook_deliveries(id, None, None, None).await.unwrap().deliveries
}

/// The delivery that was made first, once it has had so many attempts of which the outcome is known.
async fn attempted(server: &Server, id: &str, attempts: usize) -> WebhookDelivery {
    let first = async || deliveries(server, id).await.pop();
    let has_been = async || first().await.is_some_and(|delivery| delivery.attempts.len() >= attempts);
    eventually("an attempt is written down", has_been).await;
    first().await.unwrap()
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
    assert_eq!(stamps.len(), 3, "and signed anew each time");
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
    // The other one has heard of it: whoever passed has looked at this one, too.
    other.called(1).await;
    receiver.called(1).await;
    server.clock.advance(1_000);
    eventually("all are delivered", async || receiver.calls().len() == 4).await;
}

async fn a_redirect_is_not_followed(on: On) {
    let (server, receiver) = (server(on).await, Receiver::start().await);
    let elsewhere = format!("http://{}/elsewhere", receiver.address);
    receiver.answer(307, &[("location", &elsewhere)]);
    let made = made(&server, &receiver).await;
    server.submit().await;
    let delivery = attempted(&server, &made.id, 1).await;
    assert_eq!((delivery.state.as_str(), delivery.attempts[0].status), ("waiting", Some(307)));
    server.clock.advance(6_000);
    let calls = receiver.called(2).await;
    assert!(calls.iter().all(|call| call.path.starts_with("/hook")), "{calls:?}");
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

/// Gives one answer after the other, and the last one from then on.
#[derive(Debug)]
struct ScriptedResolver {
    answers: Vec<IpAddr>,
    asked: AtomicUsize,
}

#[async_trait]
impl HostResolver for ScriptedResolver {
    async fn addresses(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(vec![self.answers[asked.min(self.answers.len() - 1)]])
    }
}

fn resolver(answers: &[&str]) -> Arc<ScriptedResolver> {
    let answers = answers.iter().map(|answer| answer.parse().unwrap()).collect();
    Arc::new(ScriptedResolver { answers, asked: AtomicUsize::new(0) })
}

async fn a_host_that_becomes_private_is_not_called(on: On) {
    let (server, receiver) = (Server::start(on).await, Receiver::start().await);
    let resolver = resolver(&["8.8.8.8", "127.0.0.1"]);
    server.app.webhooks.use_resolver(resolver.clone());
    let url = format!("https://rebound.example:{}/", receiver.address.port());
    let made = server.client.create_webhook(&webhook("ci", &url, &["run.submitted"])).await.unwrap();
    server.submit().await;
    let delivery = attempted(&server, &made.id, 1).await;
    let error = delivery.attempts[0].error.clone().unwrap();
    assert!(error.contains("no public address") && !error.contains("127.0.0.1"), "{error}");
    assert_eq!((receiver.calls().len(), delivery.state.as_str()), (0, "waiting"));
    assert_eq!(resolver.asked.load(Ordering::Relaxed), 2, "once when it was made, once for the attempt");
    let refused = server.client.create_webhook(&webhook("again", &url, &[])).await;
    assert_eq!(refusal(refused), "422 invalid");
}

async fn the_address_that_was_checked_is_the_one_that_is_called(on: On) {
    let server = Server::with(on, |settings| settings.webhook_allow = "hooks.internal".into()).await;
    let receiver = Receiver::start().await;
    // Were it asked again between check and call, the call would go to an address where nobody is.
    let resolver = resolver(&["127.0.0.1", "127.0.0.1", "192.0.2.1"]);
    server.app.webhooks.use_resolver(resolver.clone());
    let url = format!("http://hooks.internal:{}/hook", receiver.address.port());
    let made = server.client.create_webhook(&webhook("ci", &url, &["run.submitted"])).await.unwrap();
    server.submit().await;
    let call = receiver.called(1).await.remove(0);
    assert_eq!(call.header("host"), format!("hooks.internal:{}", receiver.address.port()));
    attempted(&server, &made.id, 1).await;
    assert_eq!(resolver.asked.load(Ordering::Relaxed), 2);
}

async fn two_secrets_sign_while_one_takes_the_place_of_the_other(on: On) {
    let (server, receiver) = (server(on).await, Receiver::start().await);
    let made = made(&server, &receiver).await;
    let old = made.secret.unwrap();
    let rotation = RotateWebhook { overlap_ms: Some(60_000), secret: None };
    let rotated = server.client.rotate_webhook(&made.id, &rotation).await.unwrap();
    let new = rotated.secret.unwrap();
    assert_eq!(rotated.secret_before_until.map(|at| at.0), Some(START + 60_000));
    assert_ne!(old, new);
    server.submit().await;
    let call = receiver.called(1).await.remove(0);
    assert!(call.is_signed_with(&old) && call.is_signed_with(&new));
    server.clock.advance(60_000);
    server.submit().await;
    let call = receiver.called(2).await.remove(1);
    assert!(!call.is_signed_with(&old) && call.is_signed_with(&new));
    let own = RotateWebhook { overlap_ms: Some(0), secret: Some("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into()) };
    let given = server.client.rotate_webhook(&made.id, &own).await.unwrap();
    assert_eq!((given.secret, given.secret_before_until), (own.secret.clone(), None));
    let again = server.client.rotate_webhook(&made.id, &own).await.unwrap();
    assert_eq!(again.secret, None, "it has it already");
    let long = RotateWebhook { overlap_ms: Some(u64::MAX), secret: None };
    assert_eq!(refusal(server.client.rotate_webhook(&made.id, &long).await), "422 invalid");
}

/// Submits a run, and waits until its event is written.
async fn submit_and_record(server: &Server) {
    let last = async || server.app.store.events_after(i64::MAX - 1, 1).await.unwrap().last;
    let before = last().await;
    server.submit().await;
    eventually("the event is written", async || last().await > before).await;
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

async fn a_namespace_hears_nothing_of_another_and_sees_nothing_of_its_webhooks(on: On) {
    let server = server(on).await;
    let (ours, theirs, everything) = (Receiver::start().await, Receiver::start().await, Receiver::start().await);
    let team = server.client_for(&["admin"], Some("team")).await;
    let made = made(&server, &ours).await;
    let foreign = CreateWebhook { namespace: None, ..webhook("ci", &theirs.url(), &["run.submitted"]) };
    let foreign = team.create_webhook(&foreign).await.unwrap();
    assert_eq!(foreign.namespace.as_deref(), Some("team"));
    let all = CreateWebhook { namespace: None, ..webhook("all", &everything.url(), &["run.submitted"]) };
    let all = server.client.create_webhook(&all).await.unwrap();
    assert_eq!(all.namespace, None);
    let run_of_ours = server.submit().await;
    let run_of_theirs = team.submit(&SubmitRun { namespace: "team".into(), ..run() }).await.unwrap().id;
    let subject = |call: &Call| call.event()["subject"].as_str().unwrap().to_owned();
    assert_eq!(ours.called(1).await.iter().map(subject).collect::<Vec<_>>(), std::slice::from_ref(&run_of_ours));
    assert_eq!(theirs.called(1).await.iter().map(subject).collect::<Vec<_>>(), std::slice::from_ref(&run_of_theirs));
    let heard: BTreeSet<_> = everything.called(2).await.iter().map(subject).collect();
    assert_eq!(heard, BTreeSet::from([run_of_ours, run_of_theirs]));
    let listed = team.webhooks(None, None, None).await.unwrap().webhooks;
    assert_eq!(listed.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(), [foreign.id]);
    for id in [&made.id, &all.id, "018bcfe5-6800-7000-8000-000000000000", "ci"] {
        assert_eq!(refusal(team.webhook(id).await), "404 not_found");
        assert_eq!(refusal(team.pause_webhook(id).await), "404 not_found");
        assert_eq!(refusal(team.webhook_deliveries(id, None, None, None).await), "404 not_found");
        assert_eq!(refusal(team.delete_webhook(id).await), "404 not_found");
    }
    assert_eq!(refusal(team.create_webhook(&webhook("x", &ours.url(), &[])).await), "403 forbidden");
    let reader = server.client_for(&["read"], Some("default")).await;
    let read = reader.webhook(&made.id).await.unwrap();
    assert_eq!((read.url, read.secret), (format!("http://{}", ours.address), None), "a URL may hold a secret");
    assert_eq!(refusal(reader.webhook_deliveries(&made.id, None, None, None).await), "403 forbidden");
}

async fn the_secret_is_shown_once_and_kept_sealed(on: On) {
    let (server, receiver) = (server(on).await, Receiver::start().await);
    let canary = format!("whsec_{}", STANDARD.encode(b"a canary that sings when it is out"));
    let wanted = CreateWebhook { secret: Some(canary.clone()), ..webhook("ci", &receiver.url(), &["run.submitted"]) };
    let made = server.client.create_webhook(&wanted).await.unwrap();
    assert_eq!(made.secret.as_deref(), Some(canary.as_str()));
    server.submit().await;
    assert!(receiver.called(1).await[0].is_signed_with(&canary));
    for path in ["/api/v1/webhooks".to_owned(), format!("/api/v1/webhooks/{}", made.id), "/api/v1/audit".to_owned()] {
        let answer = server.call("GET", &path, "").await;
        let said = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(answer.status == 200 && !said.contains("whsec_") && !said.contains("canary"), "{path}: {said}");
    }
    assert!(!server.holds("a canary that sings").await, "it is in the database");
    assert!(!server.holds(&canary[6..]).await, "it is in the database");
}

async fn the_same_webhook_is_made_once(on: On) {
    let (server, receiver) = (server(on).await, Receiver::start().await);
    let wanted = webhook("ci", &receiver.url(), &["run"]);
    let first = server.call("POST", "/api/v1/webhooks", serde_json::to_vec(&wanted).unwrap()).await;
    let again = server.call("POST", "/api/v1/webhooks", serde_json::to_vec(&wanted).unwrap()).await;
    assert_eq!((first.status, again.status), (201, 200));
    assert_eq!((first.json()["id"].clone(), &again.json()["secret"]), (again.json()["id"].clone(), &Value::Null));
    let other = webhook("ci", &receiver.url(), &["queue"]);
    assert_eq!(refusal(server.client.create_webhook(&other).await), "409 conflict");
    server.client.delete_webhook(first.json()["id"].as_str().unwrap()).await.unwrap();
    assert_eq!(server.client.webhooks(None, None, None).await.unwrap().webhooks, []);
    server.client.create_webhook(&other).await.unwrap();
}

async fn a_webhook_that_makes_no_sense_is_refused(on: On) {
    let server = server(on).await;
    let good = json!({"name": "ci", "url": "https://8.8.8.8/", "namespace": "default"});
    let cases = [
        ("url", json!("http://8.8.8.8/"), "url"),
        ("url", json!("https://10.0.0.1/"), "url"),
        ("url", json!("https://[::1]/"), "url"),
        ("url", json!("https://user:password@8.8.8.8/"), "url"),
        ("url", json!("ftp://8.8.8.8/"), "url"),
        ("url", json!("nonsense"), "url"),
        ("name", json!(""), "name"),
        ("filter", json!({"kinds": ["run.over"]}), "filter.kinds"),
        ("filter", json!({"kinds": ["run.ended,queue"]}), "filter.kinds"),
        ("filter", json!({"kinds": [""]}), "filter.kinds"),
        ("filter", json!({"queue": ""}), "filter.queue"),
        ("filter", json!({"type": "x".repeat(201)}), "filter.type"),
        ("secret", json!("whsec_short"), "secret"),
    ];
    for (key, value, field) in cases {
        let mut wrong = good.clone();
        wrong[key] = value;
        let answer = server.call("POST", "/api/v1/webhooks", wrong.to_string()).await;
        assert_eq!((answer.status, answer.json()["field"].as_str()), (422, Some(field)), "{wrong}: {answer:?}");
        assert!(!String::from_utf8_lossy(&answer.body).contains("password@"), "{answer:?}");
    }
    assert_eq!(server.client.webhooks(None, None, None).await.unwrap().webhooks, []);
}

async fn a_test_says_what_the_receiver_answered(on: On) {
    let (server, receiver) = (server(on).await, Receiver::start().await);
    let made = made(&server, &receiver).await;
    let tested = server.client.test_webhook(&made.id).await.unwrap();
    assert_eq!((tested.delivered, tested.status, tested.response.as_deref()), (true, Some(200), Some("said 200")));
    let call = receiver.called(1).await.remove(0);
    assert!(call.kind() == "dev.baton.ping" && call.is_signed_with(&made.secret.unwrap()), "{call:?}");
    receiver.answer(418, &[]);
    let tested = server.client.test_webhook(&made.id).await.unwrap();
    assert_eq!((tested.delivered, tested.status), (false, Some(418)));
    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let change = ChangeWebhook { url: Some(format!("http://{nobody}/")), filter: None };
    server.client.change_webhook(&made.id, &change).await.unwrap();
    let tested = server.client.test_webhook(&made.id).await.unwrap();
    assert_eq!((tested.delivered, tested.status), (false, None));
    assert!(tested.error.as_ref().unwrap().starts_with("no connection"), "{tested:?}");
    assert_eq!(deliveries(&server, &made.id).await, [], "nothing of it is kept");
}

async fn there_are_only_so_many_in_a_namespace(on: On) {
    let server = server(on).await;
    for number in 0..WEBHOOKS_PER_NAMESPACE_MAX {
        let wanted = webhook(&format!("n{number}"), "http://127.0.0.1:9/", &["worker"]);
        server.client.create_webhook(&wanted).await.unwrap();
    }
    let more = server.client.create_webhook(&webhook("more", "http://127.0.0.1:9/", &["worker"])).await;
    assert_eq!(refusal(more), "429 namespace_limit");
    let page = server.client.webhooks(Some("default"), Some(60), None).await.unwrap();
    let rest = server.client.webhooks(Some("default"), Some(60), page.next_cursor.as_deref()).await.unwrap();
    assert_eq!((page.webhooks.len(), rest.webhooks.len(), rest.next_cursor), (60, 40, None));
}

async fn what_is_done_to_webhooks_is_written_down(on: On) {
    let (server, receiver) = (server(on).await, Receiver::start().await);
    let made = made(&server, &receiver).await;
    let change = ChangeWebhook { url: Some(receiver.url() + "x"), filter: None };
    server.client.change_webhook(&made.id, &change).await.unwrap();
    server.client.pause_webhook(&made.id).await.unwrap();
    server.client.resume_webhook(&made.id).await.unwrap();
    server.client.rotate_webhook(&made.id, &RotateWebhook::default()).await.unwrap();
    server.client.replay_webhook(&made.id, &ReplayWebhook::default()).await.unwrap();
    server.client.delete_webhook(&made.id).await.unwrap();
    let lines = server.client.audit_log(Some(50), None).await.unwrap().lines;
    let of_this: Vec<_> =
        lines.iter().rev().filter(|line| line.subject == made.id).map(|line| line.action.as_str()).collect();
    let expected = ["create", "change", "pause", "resume", "rotate", "replay", "delete"];
    assert_eq!(of_this, expected.map(|verb| format!("webhook.{verb}")));
    assert!(lines.iter().all(|line| !line.detail.contains("t0ken")), "a URL may hold a secret");
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
