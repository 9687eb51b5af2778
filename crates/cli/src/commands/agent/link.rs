//! The agent's side of the wire: it beats, listens and speaks, each for itself, and repeats what was not answered.

use std::time::Duration;

use baton::proto::{JoinRunner, JoinedRunner, RunnerOrder, SignalRunner};
use baton::{Client, ClientError};
use baton_core::pools::Signal;
use baton_server::crash;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::words::Input;

/// How long a question about the next order waits on the server.
const LISTEN: Duration = Duration::from_secs(30);
/// Pause before a call is repeated that was not answered.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a call may take that does not wait on purpose. One that hangs must not keep the next heartbeats from going out.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// An agent that has joined.
#[derive(Clone)]
pub struct Link {
    client: Client,
    runner: String,
    token: String,
    inputs: mpsc::Sender<Input>,
}

/// Why an agent could not join.
#[derive(Debug)]
pub enum NotJoined {
    /// The server does not want it.
    Refused(ClientError),
    /// No server answered in time.
    Unreachable(ClientError),
}

/// Makes the agent known. Whatever gets no answer is asked again, for at most this long.
pub async fn join(
    client: &Client,
    token: &str,
    join: &JoinRunner,
    patience: Duration,
) -> Result<JoinedRunner, NotJoined> {
    let begun = Instant::now();
    loop {
        match client.join_runner(token, join).await {
            Ok(joined) => return Ok(joined),
            // Whom an agent has never trusted it does not wait for.
            Err(error @ ClientError::Untrusted(_)) => return Err(NotJoined::Refused(error)),
            Err(error) if !is_passing(&error) => return Err(NotJoined::Refused(error)),
            Err(error) if begun.elapsed() > patience => return Err(NotJoined::Unreachable(error)),
            Err(error) => tracing::warn!(%error, "cannot join; trying again"),
        }
        sleep(PAUSE).await;
    }
}

/// Whether the same call may work later. Answers of somebody else, between us and the server, pass; so
/// does a certificate that is not good: it is being replaced.
fn is_passing(error: &ClientError) -> bool {
    let is_foreign = error.code().is_some_and(|code| code.starts_with("http_"));
    error.is_transient() || is_foreign || matches!(error, ClientError::Decode(_) | ClientError::Untrusted(_))
}

/// Whether the server does not know the agent any more, or never did.
fn is_disowned(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused { status: 401 | 403 | 404 | 410, .. }) && !is_passing(error)
}

impl Link {
    pub fn new(client: &Client, joined: &JoinedRunner, inputs: mpsc::Sender<Input>) -> Link {
        // These calls are made on a thread of their own.
        let client = client.clone().with_own_connections().with_timeout(CALL_TIMEOUT);
        Link { client, runner: joined.runner_id.clone(), token: joined.token.clone(), inputs }
    }

    /// Sends heartbeats without an end.
    pub async fn beat(self, every: Duration) {
        let mut beats = interval(every);
        // After a pause of this machine one beat says as much as ten.
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            beats.tick().await;
            match self.client.beat_runner(&self.runner, &self.token).await {
                Ok(order) => self.hear(order).await,
                Err(error) => self.bear("heartbeat", error).await,
            }
        }
    }

    /// Waits for orders without an end.
    pub async fn listen(self, mut serial: String) {
        loop {
            let asked = Instant::now();
            match self.client.next_runner_order(&self.runner, &self.token, &serial, LISTEN).await {
                Ok(order) => {
                    // A server that is being stopped lets nobody wait.
                    let is_early = order.serial == serial && asked.elapsed() < LISTEN / 2;
                    serial.clone_from(&order.serial);
                    self.hear(order).await;
                    if is_early {
                        sleep(PAUSE).await;
                    }
                }
                Err(error) => {
                    self.bear("next", error).await;
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// Says what there is to say until it is answered, or something newer is to be said.
    pub async fn speak(self, mut said: watch::Receiver<Option<SignalRunner>>) {
        while said.changed().await.is_ok() {
            let Some(signal) = said.borrow_and_update().clone() else { continue };
            tokio::select! {
                () = self.say(&signal) => {}
                // Left to be seen by the next look.
                _ = changed(&said) => {}
            }
        }
    }

    async fn say(&self, signal: &SignalRunner) {
        let word = signal.signal.as_str();
        loop {
            match self.client.signal_runner(&self.runner, &self.token, signal).await {
                Ok(answer) => {
                    crash::point(said(signal.signal));
                    match answer.why {
                        Some(why) if !answer.counts => tracing::warn!(signal = word, %why, "it does not count"),
                        _ => tracing::info!(signal = word, run_id = signal.run_id.as_deref(), "said"),
                    }
                    return self.hear(answer.order).await;
                }
                Err(error) if is_passing(&error) => {
                    tracing::warn!(signal = word, %error, "trying again");
                    sleep(PAUSE).await;
                }
                // The server's deadlines see to it that nobody waits for this.
                Err(error) => return self.bear(word, error).await,
            }
        }
    }

    async fn hear(&self, order: RunnerOrder) {
        // Nobody listens any more when the agent ends.
        let _ = self.inputs.send(Input::Order(order)).await;
    }

    async fn bear(&self, call: &str, error: ClientError) {
        tracing::warn!(call, %error, "the server gives no answer that helps");
        if is_disowned(&error) {
            let _ = self.inputs.send(Input::Disowned(error.to_string())).await;
        }
    }
}

/// The crash point after a signal.
fn said(signal: Signal) -> &'static str {
    match signal {
        Signal::Ready => "agent.said_ready",
        Signal::Registered => "agent.said_registered",
        Signal::Deregistered => "agent.said_deregistered",
        Signal::RegisterFailed | Signal::DeregisterFailed => "agent.said_failed",
    }
}

/// Waits until there is something newer, without taking note of it.
async fn changed(said: &watch::Receiver<Option<SignalRunner>>) {
    let mut said = said.clone();
    if said.changed().await.is_err() {
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, code: &str) -> ClientError {
        ClientError::Refused { status, code: code.into(), message: String::new(), field: None, retry_after: None }
    }

    #[test]
    fn only_the_server_itself_can_disown_an_agent() {
        for status in [401, 403, 404] {
            assert!(is_disowned(&refused(status, "not_found")), "{status}");
            // A proxy whose server is being replaced.
            assert!(!is_disowned(&refused(status, &format!("http_{status}"))), "{status}");
            assert!(is_passing(&refused(status, &format!("http_{status}"))), "{status}");
        }
        for error in [refused(409, "conflict"), refused(503, "unavailable"), ClientError::Unreachable(String::new())] {
            assert!(!is_disowned(&error), "{error:?}");
        }
        assert!(is_passing(&refused(503, "unavailable")) && !is_passing(&refused(400, "invalid")));
    }
}
