//! One stream from its hello to its end.

use std::sync::Arc;
use std::time::Duration;

use baton_proto::v1;
use baton_store::LeaseRef;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use prost::Message as _;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

use super::super::error;
use super::super::layer::Authenticated;
use super::super::workers::{handed, heard, registered};
use super::claims::{self, Source};
use super::held::{Hands, lease_of};
use super::hello::{self, Welcome};
use super::mail::{self, Mail};
use super::outbox::Outbox;
use super::polls::Polls;
use super::reports::{Done, Groups};
use crate::inboxes::{Mailbox, News};
use crate::service;
use crate::service::workflows;
use crate::service::workflows::claim::Taken;
use crate::workers::KnownWorker;
use crate::{App, Error};

/// How long a stream may take to say hello.
const HELLO_TIME_MAX: Duration = Duration::from_secs(30);
/// Reports of one stream that are carried out at once; more are read when some are done.
const REPORTS_MAX: usize = 10_000;
/// Bytes of such reports.
const REPORT_BYTES_MAX: usize = 32 << 20;
/// Heartbeats of one stream that are carried out at once; an honest worker has one.
const BEATS_MAX: usize = 100;
/// Bytes that wait to be sent; while there are more, nothing more is read or claimed.
const OUTBOX_BYTES_MAX: usize = 8 << 20;
/// Most slots one stream may have.
const SLOTS_MAX: u32 = 100_000;
/// Pause before the next claim of a worker that could get nothing.
const CLAIM_PAUSE: Duration = Duration::from_millis(200);

/// Pauses before the next claim of a worker that may not have more now; each is twice the one before.
const FULL_PAUSE_FIRST: Duration = Duration::from_millis(10);
const FULL_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Carries a stream, and says how it ended.
pub(super) async fn run(
    app: &App,
    who: Authenticated,
    mut requests: Streaming<v1::WorkRequest>,
    deadline: Option<Instant>,
    outbox: &Arc<Outbox>,
) -> Result<(), Status> {
    let first = tokio::select! {
        first = timeout(HELLO_TIME_MAX, requests.message()) => first,
        () = outbox.closed.cancelled() => return Ok(()),
    };
    let first = first.map_err(|_| Error::TooSlow)??;
    let Some(mut first) = first else { return Ok(()) };
    let hello =
        first.hello.take().ok_or_else(|| workflows::invalid("hello", "must be in the first message of a stream"))?;
    let welcome = hello::greet(app, &who, hello).await.map_err(|why| error::of_worker(&why))?;
    let source = Source::of(app, &welcome.known).await?;
    let mut session = Session::begin(app, who, outbox, welcome, source);
    session.take(first);
    let end = session.serve(requests, deadline).await;
    session.close().await;
    end
}

/// What the stream's task does besides reading.
enum Outcome {
    Reports(Done),
    /// With the leases that were held when it was asked.
    Heartbeat(Result<v1::WorkerHeartbeatResponse, Error>, Vec<LeaseRef>),
    Mail(Mail),
}

struct Session {
    app: App,
    who: Authenticated,
    outbox: Arc<Outbox>,
    known: Arc<KnownWorker>,
    source: Source,
    mailbox: Arc<Mailbox>,
    displaced: CancellationToken,
    held: Hands,
    /// Runs that came again before the answer to the report that had let go of them.
    early: Vec<Taken>,
    slots: u32,
    polls: Polls,
    no_claim_before: Option<Instant>,
    full_pause: Duration,
    working: FuturesUnordered<BoxFuture<'static, Outcome>>,
    reports: usize,
    report_bytes: usize,
    beats: usize,
    reading_mail: bool,
    /// The worker wants no more runs, or may not have any.
    draining: bool,
    /// The worker has said that it drains: the stream ends when it holds nothing.
    leaving: bool,
    /// Nothing more comes from the worker.
    half_closed: bool,
    failed: Option<Status>,
}

impl Session {
    fn begin(app: &App, who: Authenticated, outbox: &Arc<Outbox>, welcome: Welcome, source: Source) -> Session {
        let Welcome { known, registered: answer, held, lost, draining } = welcome;
        let mailbox = Arc::new(Mailbox::default());
        let displaced = app.inboxes.open(known.id, &mailbox);
        outbox.registered(registered(answer));
        if !lost.is_empty() || draining {
            let news = v1::WorkerHeartbeatResponse { accepted: true, should_drain: draining, lost, cancelled: vec![] };
            outbox.heartbeat(news);
        }
        let held = Hands::new(app.inboxes.clone(), mailbox.clone(), held);
        let mut session = Session {
            app: app.clone(),
            who,
            outbox: outbox.clone(),
            known,
            source,
            mailbox,
            displaced,
            held,
            early: vec![],
            slots: 0,
            polls: Polls::default(),
            no_claim_before: None,
            full_pause: FULL_PAUSE_FIRST,
            working: FuturesUnordered::new(),
            reports: 0,
            report_bytes: 0,
            beats: 0,
            reading_mail: false,
            draining,
            leaving: false,
            half_closed: false,
            failed: None,
        };
        if !session.held.is_empty() {
            // What came while there was no stream.
            session.read_mail(News { runs: vec![], all: true });
        }
        session
    }

    /// Does whatever there is to do until the stream is over.
    async fn serve(
        &mut self,
        mut requests: Streaming<v1::WorkRequest>,
        deadline: Option<Instant>,
    ) -> Result<(), Status> {
        let (app, known) = (self.app.clone(), self.known.clone());
        let (outbox, mailbox, displaced) = (self.outbox.clone(), self.mailbox.clone(), self.displaced.clone());
        let news = known.news.notified();
        tokio::pin!(news);
        news.as_mut().enable();
        loop {
            if let Some(status) = self.failed.take() {
                return Err(status);
            }
            if self.is_done() {
                return Ok(());
            }
            self.claim();
            let may_read = !self.half_closed && self.has_room();
            let full = self.outbox.bytes() >= OUTBOX_BYTES_MAX;
            tokio::select! {
                request = requests.message(), if may_read => match request {
                    Ok(Some(request)) => self.take(request),
                    Ok(None) => self.half_close(),
                    // Cut: nobody is there to hear of it.
                    Err(status) => return Err(status),
                },
                Some(outcome) = self.working.next(), if !self.working.is_empty() => self.settle(outcome),
                taken = self.polls.next(), if !self.polls.is_empty() => self.claimed(taken),
                () = mailbox.bell.notified(), if !self.reading_mail => self.read_mail(mailbox.take()),
                () = news.as_mut() => {
                    news.set(known.news.notified());
                    news.as_mut().enable();
                    self.look();
                }
                () = sleep_until(self.no_claim_before.unwrap_or_else(Instant::now)), if self.no_claim_before.is_some() => {
                    self.no_claim_before = None;
                }
                // There may be room again. A connection that takes nothing for long is cut.
                () = outbox.taken.notified(), if full => {}
                () = outbox.closed.cancelled() => return Ok(()),
                () = displaced.cancelled() => return Err(Status::aborted("another stream of this worker has taken over")),
                () = app.stopping.cancelled() => {
                    self.finish().await;
                    return Err(Error::Stopping.into());
                }
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    self.finish().await;
                    return Err(Status::deadline_exceeded("the time the caller gave has passed"));
                }
            }
        }
    }

    fn has_room(&self) -> bool {
        self.reports < REPORTS_MAX
            && self.report_bytes < REPORT_BYTES_MAX
            && self.beats < BEATS_MAX
            && self.outbox.bytes() < OUTBOX_BYTES_MAX
    }

    fn is_done(&self) -> bool {
        let idle = self.working.is_empty() && self.polls.is_empty();
        idle && (self.half_closed || self.leaving && self.held.is_empty())
    }

    /// Takes a message in.
    fn take(&mut self, request: v1::WorkRequest) {
        self.slots = self.slots.saturating_add(request.slots).min(SLOTS_MAX);
        if request.slots > 0 {
            self.no_claim_before = None;
        }
        if !request.reports.is_empty() {
            self.carry_out(request.reports);
        }
        if let Some(said) = request.heartbeat {
            let (app, who, known, held) = (self.app.clone(), self.who.clone(), self.known.clone(), self.held.leases());
            self.beats += 1;
            self.working
                .push(Box::pin(async move { Outcome::Heartbeat(mail::beat(&app, &who, &known, said).await, held) }));
        }
        if request.drain {
            self.leaving = true;
            self.drain();
        }
    }

    /// No more runs. Those that were not sent go back.
    fn drain(&mut self) {
        self.draining = true;
        self.polls.withdraw();
        let unsent = self.take_unsent();
        if !unsent.is_empty() {
            let app = self.app.clone();
            self.working.push(Box::pin(async move {
                claims::give_back(&app, unsent).await;
                Outcome::Reports(Done::default())
            }));
        }
    }

    fn half_close(&mut self) {
        self.half_closed = true;
        self.drain();
    }

    /// Takes back runs that were not sent.
    fn take_unsent(&mut self) -> Vec<LeaseRef> {
        let mut unsent = self.held.take_back(&self.outbox.unsent());
        unsent.extend(self.early.drain(..).map(|taken| lease_of(&taken)));
        unsent
    }

    fn carry_out(&mut self, reports: Vec<v1::Report>) {
        self.reports += reports.len();
        // As they came: names and reasons hold memory as well as outputs do.
        let mut bytes = reports.iter().map(v1::Report::encoded_len).sum();
        self.report_bytes += bytes;
        let mut groups = Groups::default();
        for report in reports {
            let mut ending = None;
            let open = |run: &str, lease: &str| self.held.open(&self.app, &self.who.caller, run, lease);
            groups.add(&self.app, report, open, |lease| ending = Some(lease));
            if let Some(lease) = ending {
                self.held.note_ending(lease);
            }
        }
        if let Some(done) = groups.refused() {
            self.settle(Outcome::Reports(done));
        }
        for call in groups.calls(&self.app, &self.who.caller) {
            // The bytes are counted with the first call, which is nearly always the only one.
            let bytes = std::mem::take(&mut bytes);
            self.working.push(Box::pin(call.map(move |done| Outcome::Reports(Done { bytes, ..done }))));
        }
        self.report_bytes -= bytes;
    }

    /// Parks polls for the slots that none waits for. A slot that came with the end of a run is good as soon as that end is written.
    fn claim(&mut self) {
        let held = u32::try_from(self.held.len() + self.early.len()).unwrap_or(u32::MAX);
        let slots = self.slots.min(self.known.max_concurrent.max(1).saturating_sub(held));
        let ready = !self.draining && slots > 0 && self.no_claim_before.is_none();
        if ready && self.outbox.bytes() < OUTBOX_BYTES_MAX {
            let Session { app, known, mailbox, source, polls, .. } = self;
            polls.park(slots, |room| {
                let (app, known, mailbox) = (app.clone(), known.clone(), mailbox.clone());
                Box::pin(claims::claim(app, known, source.clone(), mailbox, room))
            });
        }
    }

    fn claimed(&mut self, taken: Result<Vec<Taken>, Error>) {
        match taken {
            Ok(taken) if taken.is_empty() => self.no_claim_before = Some(Instant::now() + CLAIM_PAUSE),
            Ok(taken) => {
                // Answers that are there go first: they may let go of a run that comes again.
                while let Some(Some(outcome)) = self.working.next().now_or_never() {
                    self.settle(outcome);
                }
                self.full_pause = FULL_PAUSE_FIRST;
                self.hand_over(taken);
            }
            Err(why @ (Error::WorkerOffline | Error::NotFound { .. })) => self.failed = Some(error::of_worker(&why)),
            Err(Error::WorkerDraining) => {
                self.draining = true;
                self.look();
            }
            // Runs that were claimed for a stream before may be on their way back: soon there is room.
            Err(Error::WorkerFull | Error::WorkerUnfit(_) | Error::NamespaceDisabled(_)) => {
                self.no_claim_before = Some(Instant::now() + self.full_pause);
                self.full_pause = (2 * self.full_pause).min(FULL_PAUSE_MAX);
            }
            Err(why) => {
                tracing::debug!(%why, worker = %self.known.id, "a claim for a stream failed; trying again");
                self.no_claim_before = Some(Instant::now() + CLAIM_PAUSE);
            }
        }
    }

    fn hand_over(&mut self, taken: Vec<Taken>) {
        let mut runs = Vec::with_capacity(taken.len());
        for taken in taken {
            if self.held.is_ending(taken.claimed.run) {
                // The worker must not hear of the new lease before it hears that the old one is over.
                self.early.push(taken);
                continue;
            }
            self.held.take(&taken);
            runs.push(handed(taken));
        }
        self.slots = self.slots.saturating_sub(runs.len() as u32);
        if !runs.is_empty() {
            self.outbox.runs(runs);
        }
    }

    fn settle(&mut self, outcome: Outcome) {
        self.beats -= usize::from(matches!(outcome, Outcome::Heartbeat(..)));
        match outcome {
            Outcome::Reports(done) => self.reported(done),
            Outcome::Heartbeat(Ok(answer), held) => {
                self.draining |= answer.should_drain;
                self.outbox.heartbeat(self.held.current(answer, &held));
            }
            // One that cannot be taken now is sent again soon.
            Outcome::Heartbeat(Err(Error::Unavailable | Error::DiskFull | Error::TooMany { .. }), _) => {}
            Outcome::Heartbeat(Err(why), _) => self.failed = Some(error::of_worker(&why)),
            Outcome::Mail(Mail { inboxes, news }) => {
                let held: Vec<_> = inboxes.iter().map(|(lease, _)| *lease).collect();
                self.reading_mail = false;
                for (lease, messages) in inboxes {
                    if let Some(new) = self.held.unseen(lease, messages) {
                        self.outbox.messages(new);
                    }
                }
                if let Some(news) = news {
                    self.outbox.heartbeat(self.held.current(news, &held));
                }
            }
        }
    }

    fn reported(&mut self, done: Done) {
        self.reports -= done.answers.len().min(self.reports);
        self.report_bytes -= done.bytes.min(self.report_bytes);
        for (lease, last) in done.seen {
            self.held.note_seen(lease, last);
        }
        let some_are_over = self.held.settle(done.ends);
        if !done.answers.is_empty() {
            self.outbox.answers(done.answers);
        }
        if some_are_over {
            self.no_claim_before = None;
        }
        if !self.early.is_empty() {
            let early = std::mem::take(&mut self.early);
            self.held.keep(early.iter().map(|taken| taken.claimed.run));
            self.hand_over(early);
        }
    }

    /// Reads the inboxes of runs that there is news of.
    fn read_mail(&mut self, news: News) {
        let runs = self.held.with_news(&news);
        if runs.is_empty() {
            return;
        }
        self.reading_mail = true;
        let (app, known) = (self.app.clone(), self.known.clone());
        self.working.push(Box::pin(async move { Outcome::Mail(mail::read(&app, &known, runs).await) }));
    }

    /// Somebody has said that there is news for the worker: leases that are lost or to be cancelled, or an order to drain.
    fn look(&mut self) {
        let (app, known, held) = (self.app.clone(), self.known.clone(), self.held.leases());
        self.beats += 1;
        self.working.push(Box::pin(async move {
            Outcome::Heartbeat(service::renew::look(&app, &known, held.clone()).await.map(heard), held)
        }));
    }

    /// Answers what has been begun.
    async fn finish(&mut self) {
        self.draining = true;
        self.polls.withdraw();
        while let Some(outcome) = self.working.next().await {
            self.settle(outcome);
        }
    }

    /// Leaves nothing behind: polls are withdrawn, runs that were not sent go back. What the worker holds stays its own.
    async fn close(&mut self) {
        self.finish().await;
        let unsent = self.take_unsent();
        if !unsent.is_empty() {
            claims::give_back(&self.app, unsent).await;
        }
        self.held.close();
        self.app.inboxes.close(self.known.id, &self.mailbox);
    }
}
