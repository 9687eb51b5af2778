//! The worker's stream: connected, served, and connected again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use baton_otlp::Exporter;
use baton_proto::v1;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep, sleep_until};
use tonic::transport::Endpoint;
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt;

use super::link::Link;
use super::payloads;
use crate::ClientError;
use crate::connector::Connector;
use crate::grpc::{self, Key, Workflows};
use crate::workflow::driver::{Driver, Finished};
use crate::workflow::handler::Handler;
use crate::workflow::mailbox::{Event, Mailbox};
use crate::workflow::time::span;

/// Waits before the next try to connect.
const CONNECT_AGAIN_FIRST: Duration = Duration::from_millis(50);
const CONNECT_AGAIN_LONGEST: Duration = Duration::from_secs(5);
/// How long the server may take to answer a hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(30);
/// A stream on which nothing came for so many heartbeats is dead.
const SILENT_BEATS: u32 = 2;
/// The server's default, until it has said otherwise.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);

/// Keeps a stream to the server, whatever happens to it.
pub(super) struct Connection {
    pub(super) endpoint: Endpoint,
    pub(super) connector: Connector,
    pub(super) key: Key,
    pub(super) register: v1::RegisterWorkerRequest,
    pub(super) handlers: HashMap<String, Handler>,
    pub(super) link: Arc<Link>,
    /// For payloads that were too much for the stream.
    pub(super) calls: Workflows,
    /// Where workflows are played. Everything else happens on the SDK's own thread.
    pub(super) users: Handle,
    /// Threads for steps that block.
    pub(super) blocking: Arc<Semaphore>,
    /// Sends spans, if somebody wants them.
    pub(super) exporter: Option<Exporter>,
    /// Told when the worker is to drain.
    pub(super) drain: Arc<Notify>,
    /// Names the registration; empty before the first.
    pub(super) worker_id: Arc<std::sync::Mutex<String>>,
}

impl Connection {
    /// Serves until the server refuses the worker for good.
    pub(super) async fn serve(&self) -> ClientError {
        let mut pause = CONNECT_AGAIN_FIRST;
        loop {
            let mut welcome = false;
            let status = match self.stream(&mut welcome).await {
                Ok(()) if self.link.is_draining() => Status::unavailable("the stream is over"),
                Ok(()) => Status::unavailable("the server has ended the stream"),
                Err(status) => status,
            };
            self.link.close();
            if is_final(&status) {
                return grpc::refused(status);
            }
            let reason = status.get_error_details().error_info().map(|info| info.reason.clone()).unwrap_or_default();
            if matches!(reason.as_str(), "WORKER_OFFLINE" | "UNKNOWN_WORKER") {
                // What this incarnation held belongs to others. The next one is registered anew.
                tracing::warn!("the server has given this worker up; it registers again");
                self.set_worker_id(String::new());
                self.link.tell_all(|| Event::Lost);
            } else {
                // Whoever trusted the server once goes on trying: its certificate is being replaced.
                let error = match grpc::refused(status) {
                    ClientError::Unreachable(why) | ClientError::Untrusted(why) => why,
                    other => other.to_string(),
                };
                tracing::warn!(error, "the stream to the server was cut; connecting again");
            }
            if welcome {
                pause = CONNECT_AGAIN_FIRST;
            }
            // Workers that lost their server together come back one after the other.
            let spread = Duration::from_millis(getrandom::u32().unwrap_or(0) as u64 % (pause.as_millis() as u64 + 1));
            sleep(pause / 2 + spread / 2).await;
            pause = (pause * 2).min(CONNECT_AGAIN_LONGEST);
        }
    }

    fn worker_id(&self) -> String {
        self.worker_id.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    fn set_worker_id(&self, id: String) {
        *self.worker_id.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = id;
    }

    /// Carries one stream; `welcome` becomes true when the server has answered the hello.
    async fn stream(&self, welcome: &mut bool) -> Result<(), Status> {
        let channel = self.endpoint.connect_with_connector(self.connector.clone()).await;
        let channel = channel.map_err(|error| Status::from_error(Box::new(error)))?;
        let mut client: Workflows = grpc::workflows(channel, self.key.clone());
        let hello =
            v1::Hello { register: Some(self.register.clone()), worker_id: self.worker_id(), leases: Vec::new() };
        let requests = self.link.open(hello);
        let opening = tokio::time::timeout(HELLO_TIMEOUT, client.work(requests));
        let mut responses = opening.await.map_err(|_| Status::unavailable("no answer to the hello"))??.into_inner();
        self.read(&mut responses, welcome).await
    }

    async fn read(&self, responses: &mut Streaming<v1::WorkResponse>, welcome: &mut bool) -> Result<(), Status> {
        let mut interval = HEARTBEAT_INTERVAL;
        let mut heard = Instant::now();
        let mut next_beat = heard + interval;
        let repeat = self.link.repeat();
        tokio::pin!(repeat);
        loop {
            tokio::select! {
                response = responses.message() => {
                    let Some(response) = response? else { return Ok(()) };
                    heard = Instant::now();
                    if let Some(registered) = &response.registered {
                        *welcome = true;
                        interval = beat_interval(registered);
                        next_beat = heard + interval;
                    }
                    self.take(response);
                }
                () = sleep_until(next_beat) => {
                    if heard.elapsed() > interval * SILENT_BEATS {
                        return Err(Status::unavailable("nothing comes from the server"));
                    }
                    self.link.beat(&self.worker_id());
                    next_beat = Instant::now() + interval;
                }
                () = &mut repeat => {}
            }
        }
    }

    fn take(&self, response: v1::WorkResponse) {
        let v1::WorkResponse { registered, runs, answers, heartbeat, messages } = response;
        if let Some(registered) = registered {
            let before = self.worker_id();
            if before != registered.worker_id {
                if !before.is_empty() {
                    self.link.tell_all(|| Event::Lost);
                }
                tracing::info!(worker_id = registered.worker_id, "registered");
                self.set_worker_id(registered.worker_id);
            }
        }
        // Answers first: one of them may let go of a run that comes again.
        for answer in answers {
            self.answered(answer);
        }
        for v1::RunMessages { run_id, messages } in messages {
            self.told(run_id, messages);
        }
        if let Some(news) = heartbeat {
            news.lost.iter().for_each(|run_id| self.link.tell(run_id, Event::Lost));
            news.cancelled.iter().for_each(|run_id| self.link.tell(run_id, Event::Cancel));
            if news.should_drain {
                self.drain.notify_one();
            }
        }
        for run in runs {
            self.begin(run);
        }
    }

    /// Passes an answer on, once all that belongs to it is there.
    fn answered(&self, mut answer: v1::ReportAnswer) {
        match (payloads::left_out(&mut answer), self.link.run_of(answer.number)) {
            (true, Some(lease)) => {
                let (link, calls) = (self.link.clone(), self.calls.clone());
                tokio::spawn(async move {
                    if payloads::fetch_answer(calls, &lease, &mut answer).await {
                        link.answer(answer);
                    }
                });
            }
            _ => self.link.answer(answer),
        }
    }

    /// Passes messages on, once all that belongs to them is there.
    fn told(&self, run_id: String, mut messages: Vec<v1::Message>) {
        match (messages.iter().any(payloads::is_left_out), self.link.lease_of(&run_id)) {
            (true, Some(lease)) => {
                let (link, calls) = (self.link.clone(), self.calls.clone());
                tokio::spawn(async move {
                    if payloads::fetch_messages(calls, &lease, &mut messages).await {
                        link.tell(&run_id, Event::Messages(messages));
                    }
                });
            }
            _ => self.link.tell(&run_id, Event::Messages(messages)),
        }
    }

    /// Begins to work on a run.
    fn begin(&self, run: v1::PollActivityResponse) {
        let mailbox = self.link.hold(&run.run_id, &run.lease);
        let holding = Holding {
            link: self.link.clone(),
            run_id: run.run_id.clone(),
            mailbox: mailbox.clone(),
            is_played: false,
            finished: Finished::Lost,
        };
        // A run that is pinned to a version has it behind its type.
        let name = run.workflow_type.as_str();
        let handler = self.handlers.get(name).or_else(|| self.handlers.get(name.rsplit_once('@')?.0));
        let handler = match handler {
            Some(handler) => {
                if self.link.is_draining() {
                    mailbox.put(Event::GiveBack(super::STOPPING));
                }
                handler.clone()
            }
            None => {
                tracing::error!(workflow_type = name, "a run came that this worker does not know how to do");
                mailbox.put(Event::GiveBack("this worker does not know the type"));
                let never: Handler = Arc::new(|_, _| Box::pin(std::future::pending()));
                never
            }
        };
        let (users, blocking, exporter) = (self.users.clone(), self.blocking.clone(), self.exporter.clone());
        if payloads::is_whole(&run) {
            users.spawn(play(run, handler, blocking, exporter, holding));
            return;
        }
        let calls = self.calls.clone();
        tokio::spawn(async move {
            let (mut run, mut holding) = (run, holding);
            // Should it be dropped meanwhile, then not for want of somebody who plays it.
            holding.is_played = true;
            if payloads::fetch_run(calls, &mut run).await {
                holding.is_played = false;
                users.spawn(play(run, handler, blocking, exporter, holding));
            }
        });
    }
}

/// Plays a run, on the users' runtime.
async fn play(
    run: v1::PollActivityResponse,
    handler: Handler,
    blocking: Arc<Semaphore>,
    exporter: Option<Exporter>,
    mut holding: Holding,
) {
    holding.is_played = true;
    let (mailbox, outbox) = (holding.mailbox.clone(), holding.link.clone());
    let driver = Driver::new(run, &handler, mailbox, outbox, blocking, exporter.as_ref());
    let shared = driver.shared();
    let begun_at = shared.clock.now();
    holding.finished = driver.await;
    if let Some(spans) = &shared.info.spans {
        let failure = (holding.finished == Finished::Failed).then(|| "error".to_owned());
        spans.executed(&shared.info.workflow_type, begun_at, shared.clock.now(), failure);
    }
}

/// A run that is held until this is dropped, by whatever.
struct Holding {
    link: Arc<Link>,
    run_id: String,
    mailbox: Arc<Mailbox>,
    is_played: bool,
    finished: Finished,
}

impl Drop for Holding {
    fn drop(&mut self) {
        if !self.is_played {
            // A runtime drops what it is given once it has been shut down. Runs that come here
            // would be lost, one after the other.
            self.link.orphan();
        }
        self.link.let_go(&self.run_id, &self.mailbox, self.finished);
    }
}

fn beat_interval(registered: &v1::RegisterWorkerResponse) -> Duration {
    let interval = match &registered.heartbeat_interval {
        Some(interval) => span(interval),
        None => Duration::from_secs(registered.heartbeat_interval_secs.into()),
    };
    if interval.is_zero() { HEARTBEAT_INTERVAL } else { interval }
}

/// True when trying again cannot help.
fn is_final(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unauthenticated | Code::PermissionDenied | Code::InvalidArgument | Code::Unimplemented
    )
}
