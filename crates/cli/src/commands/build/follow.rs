//! Following a build to its end: its place in the queue, its worker, its log.

use std::time::Duration;

use baton::proto::{BuildStatus, BuildView};
use baton::{Client, ClientError};
use tokio::time::{Instant, sleep};

use super::interrupt::{Choice, Interrupts};
use super::screen::Screen;
use super::text::printable;
use crate::commands::explained::{FIRST_LOOK, Told};
use crate::exit::Exit;

/// Lines in one answer.
pub const PAGE_LINES: usize = 1_000;
/// How long an answer about the log may wait for lines. The build itself is looked at between two answers.
const LOOK: Duration = Duration::from_secs(2);
/// How long the server may be away.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_secs(1);

/// How following ended.
pub enum Followed {
    /// The build has ended, and all of its log was shown.
    Ended(Box<BuildView>),
    /// Nobody wants to follow it any more.
    Detached,
}

/// What was shown so far.
struct Follower<'a> {
    client: &'a Client,
    id: &'a str,
    screen: &'a Screen,
    /// The last line of the log that was shown.
    last: u64,
    shown: Option<String>,
    /// Since when nobody has it, as far as is known here.
    waits_since: Option<Instant>,
    told: Told,
    silent_since: Option<Instant>,
}

/// Follows a build until it has ended, or somebody who was asked after a Ctrl-C wants otherwise.
pub async fn follow(client: &Client, id: &str, screen: &Screen) -> Result<Followed, Exit> {
    let mut follower = Follower {
        client,
        id,
        screen,
        last: 0,
        shown: None,
        waits_since: None,
        told: Told::default(),
        silent_since: None,
    };
    let mut interrupts = Interrupts::catch()?;
    loop {
        // A look that is cut off shows nothing and counts nothing, so it can be repeated.
        let looked = tokio::select! {
            looked = follower.look() => looked,
            () = interrupts.next() => {
                screen.pause();
                let choice = interrupts.ask().await;
                screen.resume();
                match choice {
                    Choice::Stay => {}
                    Choice::Detach => return Ok(Followed::Detached),
                    Choice::Cancel => {
                        let cancelled = client.cancel_build(id).await?;
                        if !cancelled.status.is_ended() {
                            screen.note("its worker has been told to stop");
                        }
                    }
                }
                continue;
            }
        };
        match looked {
            Ok(Some(build)) => return Ok(Followed::Ended(Box::new(build))),
            Ok(None) => follower.silent_since = None,
            Err(error) => follower.bear(error).await?,
        }
    }
}

impl Follower<'_> {
    /// Shows what is new. Returns the build when it has ended and nothing is left to show.
    async fn look(&mut self) -> Result<Option<BuildView>, ClientError> {
        // The build before its log: when it has ended, no line comes after those that are there now.
        let build = self.client.build(self.id).await?;
        self.show(&build).await;
        self.explain(&build).await;
        let page = self.client.build_logs(self.id, self.last, PAGE_LINES, LOOK).await?;
        for line in &page.logs {
            self.screen.log(&printable(&line.message));
            self.last = line.number;
        }
        Ok((page.logs.is_empty() && build.status.is_ended()).then_some(build))
    }

    async fn show(&mut self, build: &BuildView) {
        let now = match (build.status, build.queue_position, &build.worker_id) {
            (BuildStatus::Pending, Some(position), _) => format!("waiting, place {position} in the queue"),
            (BuildStatus::Pending, None, _) => "waiting".to_owned(),
            (BuildStatus::Assigned | BuildStatus::Building, _, Some(worker)) => format!("with the worker {worker}"),
            (status, _, _) => status.as_str().to_owned(),
        };
        if self.shown.as_ref() == Some(&now) {
            return;
        }
        let mut told = now.clone();
        if let (BuildStatus::Assigned | BuildStatus::Building, Some(worker)) = (build.status, &build.worker_id) {
            // Its name says more than its number. Not every key may ask for it.
            if let Ok(known) = self.client.worker(worker).await {
                told = format!("with the worker {} ({worker})", known.name);
            }
            if build.attempts > 1 {
                told.push_str(&format!(", attempt {}", build.attempts));
            }
        }
        self.screen.note(&told);
        self.screen.status(told);
        self.shown = Some(now);
    }

    /// Says why a build waits that nobody has taken for a while.
    async fn explain(&mut self, build: &BuildView) {
        if build.status != BuildStatus::Pending {
            self.waits_since = None;
            return;
        }
        if self.waits_since.get_or_insert_with(Instant::now).elapsed() < FIRST_LOOK {
            return;
        }
        // Not every key may ask. Whoever follows the build sees the rest all the same.
        if let Ok(explanation) = self.client.explain(self.id).await
            && let Some(news) = self.told.news(&explanation)
        {
            self.screen.note(&news);
        }
    }

    /// A server that restarts is waited for.
    async fn bear(&mut self, error: ClientError) -> Result<(), Exit> {
        let since = *self.silent_since.get_or_insert_with(|| {
            self.screen.note(&format!("{error}; trying again"));
            Instant::now()
        });
        if !error.is_transient() || since.elapsed() > PATIENCE {
            return Err(error.into());
        }
        sleep(PAUSE).await;
        Ok(())
    }
}
