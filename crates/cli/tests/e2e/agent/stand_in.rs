//! A server that tells an agent what the test wants, and remembers what it hears.

use std::sync::Arc;
use std::time::Duration;

use baton::proto::{JoinRunner, JoinedRunner, Problem, RunnerAction, RunnerOrder, SignalRunner, SignalledRunner};
use baton_core::pools::Signal;
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::wait::PATIENCE;

pub const JOIN_TOKEN: &str = "a-join-token";
const TOKEN: &str = "a-token-of-the-runner";
pub const RUN: &str = "ci-17";

/// What was said and heard.
#[derive(Clone, Debug)]
pub struct Talk {
    pub order: RunnerOrder,
    pub joins: Vec<JoinRunner>,
    pub signals: Vec<SignalRunner>,
    pub beats: u64,
    /// Nothing is answered.
    pub is_away: bool,
    /// So many signals are heard, and not answered.
    pub signals_lost: u32,
    /// Nobody may join.
    pub is_taken: bool,
}

/// The server. Dropping it ends it.
pub struct StandIn {
    pub url: String,
    talk: Arc<watch::Sender<Talk>>,
    listening: JoinHandle<()>,
}

impl StandIn {
    /// A server that waits for an agent to say that its machine is up.
    pub async fn start() -> StandIn {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let talk = Arc::new(watch::Sender::new(Talk {
            order: order(RunnerAction::Start, 0, Some(180_000)),
            joins: Vec::new(),
            signals: Vec::new(),
            beats: 0,
            is_away: false,
            signals_lost: 0,
            is_taken: false,
        }));
        let said = talk.clone();
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, said.clone()));
            }
        });
        StandIn { url, talk, listening }
    }

    /// Gives an order.
    pub fn order(&self, action: RunnerAction, epoch: u32, remaining_ms: Option<u64>) {
        self.change(|talk| talk.order = order(action, epoch, remaining_ms));
    }

    pub fn change(&self, change: impl FnOnce(&mut Talk)) {
        self.talk.send_modify(change);
    }

    /// Waits until the talk is as it should be.
    pub async fn until(&self, what: &str, is_so: impl FnMut(&Talk) -> bool) -> Talk {
        let mut talk = self.talk.subscribe();
        match timeout(PATIENCE, talk.wait_for(is_so)).await {
            Ok(Ok(talk)) => talk.clone(),
            Ok(Err(_)) | Err(_) => panic!("not within {PATIENCE:?}: {what}; {:?}", self.talk.borrow()),
        }
    }

    /// Waits for a signal about this epoch, and returns what was said with it.
    pub async fn hear(&self, signal: Signal, epoch: u32) -> SignalRunner {
        let is_it = |said: &&SignalRunner| said.signal == signal && said.epoch == epoch;
        let talk = self.until(signal.as_str(), |talk| talk.signals.iter().any(|said| is_it(&said))).await;
        talk.signals.iter().find(is_it).cloned().unwrap()
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

fn order(action: RunnerAction, epoch: u32, remaining_ms: Option<u64>) -> RunnerOrder {
    let run_id = match action {
        RunnerAction::Register | RunnerAction::Keep | RunnerAction::Deregister => Some(RUN.to_owned()),
        RunnerAction::Start | RunnerAction::Idle | RunnerAction::End => None,
    };
    let serial = format!("{action:?}.{epoch}.{}", remaining_ms.unwrap_or_default());
    RunnerOrder { serial, action, epoch, run_id, deadline: None, remaining_ms }
}

/// A request, as far as it matters here.
struct Asked {
    path: String,
    token: String,
    body: Vec<u8>,
}

async fn serve(stream: TcpStream, talk: Arc<watch::Sender<Talk>>) {
    let mut stream = BufReader::new(stream);
    while let Some(asked) = read(&mut stream).await {
        // Whoever is away lets the caller find out by itself.
        let Some((status, body)) = answer(&asked, &talk).await else { return };
        let head =
            format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        let sent = stream.write_all(&[head.into_bytes(), body].concat()).await;
        if sent.is_err() {
            return;
        }
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Asked> {
    let (mut line, mut length, mut token) = (String::new(), 0, String::new());
    stream.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
    let path = line.split(' ').nth(1)?.to_owned();
    loop {
        line.clear();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            "authorization" => token = value.strip_prefix("Bearer ")?.to_owned(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(Asked { path, token, body })
}

async fn answer(asked: &Asked, talk: &watch::Sender<Talk>) -> Option<(&'static str, Vec<u8>)> {
    if talk.borrow().is_away {
        return None;
    }
    let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
    let is_join = path == "/api/v1/runners/join";
    if asked.token != if is_join { JOIN_TOKEN } else { TOKEN } {
        return Some(("401 Unauthorized", json(&problem("unauthorized"))));
    }
    match path {
        "/api/v1/runners/join" => {
            let join: JoinRunner = serde_json::from_slice(&asked.body).unwrap();
            talk.send_modify(|talk| talk.joins.push(join));
            let Talk { order, is_taken, .. } = talk.borrow().clone();
            if is_taken {
                return Some(("409 Conflict", json(&problem("runner_taken"))));
            }
            Some(ok(&JoinedRunner {
                runner_id: "r-1".into(),
                token: TOKEN.into(),
                pool: "linux".into(),
                namespace: "default".into(),
                heartbeat_ms: 50,
                abandon_ms: 600_000,
                order,
            }))
        }
        "/api/v1/runners/r-1/heartbeat" => {
            talk.send_modify(|talk| talk.beats += 1);
            Some(ok(&talk.borrow().order))
        }
        "/api/v1/runners/r-1/next" => {
            let parameter = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
            let after = parameter("after")?;
            let wait = Duration::from_millis(parameter("wait_ms")?.parse().ok()?);
            let _ = timeout(wait, talk.subscribe().wait_for(|talk| talk.order.serial != after || talk.is_away)).await;
            let Talk { order, is_away, .. } = talk.borrow().clone();
            (!is_away).then(|| ok(&order))
        }
        "/api/v1/runners/r-1/signals" => {
            let signal: SignalRunner = serde_json::from_slice(&asked.body).unwrap();
            let mut is_lost = false;
            talk.send_modify(|talk| {
                talk.signals.push(signal);
                is_lost = talk.signals_lost > 0;
                talk.signals_lost = talk.signals_lost.saturating_sub(1);
            });
            let order = talk.borrow().order.clone();
            (!is_lost).then(|| ok(&SignalledRunner { counts: true, why: None, order }))
        }
        _ => Some(("404 Not Found", json(&problem("not_found")))),
    }
}

fn problem(code: &str) -> Problem {
    Problem::new(format!("the stand-in says {code}"), code)
}

fn ok(answer: &impl Serialize) -> (&'static str, Vec<u8>) {
    ("200 OK", json(answer))
}

fn json(answer: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(answer).unwrap()
}
