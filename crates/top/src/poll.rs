//! Asks the server for what the screen wants, and no more often than it takes.

use std::time::Duration;

use baton::{Client, ClientError};
use baton_core::Millis;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::ask::{Answer, Ask};

/// A key that is held down changes what is wanted many times.
const SETTLE: Duration = Duration::from_millis(80);
/// An answer that took long is asked for again after this many times as long: a busy server stays that busy and no more.
const REST: u32 = 10;
/// Pauses before a server that does not answer is asked again. Each is a little shorter or longer, so that many do not come at once.
const PAUSES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(5), Duration::from_secs(15)];
/// Answers that are remembered to have been asked for.
const ASKED_MAX: usize = 64;

/// What comes back.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "nearly all of it is answers")]
pub enum News {
    Answer(Ask, Result<Answer, ClientError>),
    /// Nobody answers; the next try comes after the pause.
    Lost(ClientError, Duration),
}

/// What is wanted. `urgent` grows when everything is to be asked for again.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Wants {
    pub asks: Vec<Ask>,
    pub urgent: u64,
    /// The only namespace that is shown.
    pub namespace: Option<String>,
    /// How far the server's clock is ahead.
    pub ahead: Millis,
}

/// Asks for as long as somebody listens.
pub async fn poll(client: Client, mut wants: watch::Receiver<Wants>, news: mpsc::Sender<News>) {
    let mut asked: Vec<(Ask, Instant)> = Vec::new();
    let mut failures = 0;
    let mut urgent = 0;
    loop {
        let wanted = wants.borrow_and_update().clone();
        if wanted.urgent != urgent {
            urgent = wanted.urgent;
            asked.clear();
        }
        let now = Instant::now();
        let due = |ask: &Ask| asked.iter().find(|(known, _)| known == ask).map_or(now, |(_, due)| *due);
        let Some(ask) = wanted.asks.iter().find(|ask| due(ask) <= now).cloned() else {
            let next = wanted.asks.iter().map(due).min().unwrap_or(now + PAUSES[3]);
            tokio::select! {
                () = sleep_until(next) => {}
                changed = wants.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    // Wait for the last of a series, unless it goes on and on.
                    let _ = timeout(SETTLE * 4, async { while timeout(SETTLE, wants.changed()).await.is_ok() {} }).await;
                }
            }
            continue;
        };
        let clock = crate::clock() + wanted.ahead;
        let answer = ask.send(&client, wanted.namespace.as_deref(), clock).await;
        let took = now.elapsed();
        asked.retain(|(known, _)| *known != ask);
        if asked.len() >= ASKED_MAX {
            asked.remove(0);
        }
        let is_lost = matches!(&answer, Err(error) if error.is_transient());
        match answer {
            Err(error) if is_lost => {
                let pause = jittered(PAUSES[failures.min(PAUSES.len() - 1)]);
                failures += 1;
                if news.send(News::Lost(error, pause)).await.is_err() {
                    return;
                }
                let before = wants.borrow().urgent;
                // Somebody who is impatient may try at once; other keys change nothing.
                let impatient = async { while wants.changed().await.is_ok() && wants.borrow().urgent == before {} };
                tokio::select! { () = sleep(pause) => {}, () = impatient => {} }
            }
            answer => {
                failures = 0;
                asked.push((ask.clone(), Instant::now() + ask.every().max(took * REST)));
                if news.send(News::Answer(ask, answer)).await.is_err() {
                    return;
                }
            }
        }
        if wants.has_changed().is_err() {
            return;
        }
    }
}

fn jittered(pause: Duration) -> Duration {
    let mut byte = [128];
    // Without dice everybody waits equally long, which is no reason to fail.
    let _ = getrandom::fill(&mut byte);
    pause.mul_f64(0.75 + f64::from(byte[0]) / 512.0)
}
