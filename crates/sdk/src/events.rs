//! Listening to what happens.

use std::collections::VecDeque;
use std::time::Duration;

use baton_proto::Event;
use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use futures_util::stream;
use http::HeaderName;
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::client::{Call, within};
use crate::filter::Query;
use crate::{Client, ClientError};

/// A server says something every 15 seconds; one that is silent for longer is not there any more.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// How long it may take to be let in.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);
/// Pauses before a stream that was cut is opened again: from the first, doubled, to the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(200);
const PAUSE_LONGEST: Duration = Duration::from_secs(10);
/// Largest part of a stream that is not a whole event yet, in bytes.
const PART_BYTES_MAX: usize = 1 << 20;
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Which events to hear of. What is left out does not matter.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EventFilter {
    /// In this namespace.
    pub namespace: Option<String>,
    /// Of this queue.
    pub queue: Option<String>,
    /// Of runs of this type.
    pub run_type: Option<String>,
    /// Of this run.
    pub run: Option<String>,
    /// Of this worker.
    pub worker: Option<String>,
    /// Of this runner pool.
    pub pool: Option<String>,
    /// Of these kinds: `run.ended`, or all of a subject: `run`.
    pub kinds: Vec<String>,
    /// After the event with this id; from now on if not given.
    pub after: Option<i64>,
}

impl EventFilter {
    fn path(&self) -> String {
        let kinds = (!self.kinds.is_empty()).then(|| self.kinds.join(","));
        Query::new("/api/v1/events")
            .add("namespace", self.namespace.as_deref())
            .add("queue", self.queue.as_deref())
            .add("type", self.run_type.as_deref())
            .add("run", self.run.as_deref())
            .add("worker", self.worker.as_deref())
            .add("pool", self.pool.as_deref())
            .add("kind", kinds.as_deref())
            .path
    }
}

impl Client {
    /// Listens to what happens. A stream that is cut is opened again by itself, and goes on after the last event; an event of
    /// the kind `missed` says so where that was not possible. Ends with the first error that waiting does not mend.
    ///
    /// The first poll connects: what happens on the server from then on is heard.
    pub fn events(&self, filter: &EventFilter) -> impl Stream<Item = Result<Event, ClientError>> + Send + use<> {
        let follower = Follower {
            client: self.clone(),
            path: filter.path(),
            last: filter.after,
            body: None,
            part: BytesMut::new(),
            ready: VecDeque::new(),
            pause: PAUSE_FIRST,
        };
        stream::unfold(Some(follower), |follower| async move {
            let mut follower = follower?;
            match follower.next().await {
                Ok(event) => Some((Ok(event), Some(follower))),
                Err(error) => Some((Err(error), None)),
            }
        })
    }
}

struct Follower {
    client: Client,
    path: String,
    /// Everything up to here was heard.
    last: Option<i64>,
    body: Option<Incoming>,
    /// What has come of the next event.
    part: BytesMut,
    ready: VecDeque<Event>,
    pause: Duration,
}

impl Follower {
    async fn next(&mut self) -> Result<Event, ClientError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(event);
            }
            match self.receive().await {
                Ok(()) => {}
                Err(error) if error.is_transient() => {
                    self.body = None;
                    self.part.clear();
                    tokio::time::sleep(self.pause).await;
                    self.pause = (self.pause * 2).min(PAUSE_LONGEST);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads what comes next, opening the stream if it is not open.
    async fn receive(&mut self) -> Result<(), ClientError> {
        let body = match &mut self.body {
            Some(body) => body,
            None => {
                let mut call = Call::get(self.path.clone()).header(http::header::ACCEPT, "text/event-stream")?;
                if let Some(last) = self.last {
                    call = call.header(LAST_EVENT_ID, &last.to_string())?;
                }
                let answer = within(OPEN_TIMEOUT, self.client.open(call, None)).await?;
                self.body.insert(answer.into_body())
            }
        };
        let frame = match tokio::time::timeout(SILENCE_MAX, body.frame()).await {
            Ok(Some(frame)) => frame.map_err(|error| self.client.unreachable(&error))?,
            Ok(None) => return Err(ClientError::Unreachable("the server has ended the stream".into())),
            Err(_) => return Err(ClientError::Unreachable(format!("nothing came for {SILENCE_MAX:?}"))),
        };
        if let Ok(data) = frame.into_data() {
            self.pause = PAUSE_FIRST;
            self.read(&data)?;
        }
        Ok(())
    }

    fn read(&mut self, data: &Bytes) -> Result<(), ClientError> {
        self.part.extend_from_slice(data);
        while let Some(end) = self.part.windows(2).position(|two| two == b"\n\n") {
            let block = self.part.split_to(end + 2);
            let block = String::from_utf8_lossy(&block);
            let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            if let Some(data) = field("data") {
                let event = serde_json::from_str(data)
                    .map_err(|error| ClientError::Decode(format!("an event cannot be read: {error}")))?;
                self.ready.push_back(event);
            }
            if let Some(id) = field("id").and_then(|id| id.parse().ok()) {
                self.last = Some(id);
            }
        }
        match self.part.len() > PART_BYTES_MAX {
            true => Err(ClientError::Decode("the server sends something that is no stream of events".into())),
            false => Ok(()),
        }
    }
}
