//! What is sent to a receiver (CloudEvents 1.0, structured), and what is kept of its answers.

use baton_core::Millis;
use baton_core::webhooks::Answer;
use baton_proto::{Event, Time, WebhookAttempt};
use baton_store::{DeliveryId, NewDelivery};
use bytes::Bytes;
use serde::Serialize;

/// The type of a structured CloudEvent.
pub(super) const CONTENT_TYPE: &str = "application/cloudevents+json";
/// Attempts of a delivery that are kept; those before are forgotten.
const ATTEMPTS_KEPT: usize = 20;

/// What is sent.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) id: DeliveryId,
    pub(crate) body: Bytes,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
struct CloudEvent<'a> {
    specversion: &'static str,
    id: String,
    source: String,
    r#type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a str>,
    time: Time,
    datacontenttype: &'static str,
    data: &'a Event,
}

/// What an event is about.
fn subject(event: &Event) -> Option<&str> {
    let own = match event.kind.split('.').next()? {
        "runner" => &event.runner_id,
        "worker" => &event.worker_id,
        "queue" => &event.queue,
        "schedule" => &event.schedule,
        _ => &event.run_id,
    };
    own.as_deref()
}

impl Message {
    /// An event as it is sent. Its id is that of the delivery: positions come again where a database was restored.
    pub(crate) fn of(id: DeliveryId, event: &Event, installation: &str) -> Message {
        let cloud = CloudEvent {
            specversion: "1.0",
            id: id.to_string(),
            source: format!("/baton/{installation}"),
            r#type: format!("dev.baton.{}", event.kind),
            subject: subject(event),
            time: event.at,
            datacontenttype: "application/json",
            data: event,
        };
        // The shapes of the wire always can be written as JSON.
        Message { id, body: serde_json::to_vec(&cloud).unwrap_or_default().into() }
    }
}

/// The delivery of an event.
pub(super) fn delivery(event: &Event, now: Millis, random: u64, installation: &str) -> NewDelivery {
    let message = Message::of(DeliveryId::new(now, event.id, random), event, installation);
    NewDelivery {
        id: message.id,
        event: event.id,
        kind: event.kind.clone(),
        subject: subject(event).map(str::to_owned),
        body: message.body,
    }
}

/// What came of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Outcome {
    pub(crate) answer: Answer,
    /// Why there was none.
    pub(crate) error: Option<String>,
    /// The beginning of what the receiver said.
    pub(crate) response: Option<String>,
    pub(crate) at: Millis,
    pub(crate) took_ms: u64,
}

impl Outcome {
    /// The status, if there was an answer.
    pub(crate) fn status(&self) -> Option<u16> {
        match self.answer {
            Answer::Status { status, .. } => Some(status),
            Answer::Silence => None,
        }
    }

    pub(super) fn attempt(&self, number: u32) -> WebhookAttempt {
        WebhookAttempt {
            number,
            at: Time(self.at),
            took_ms: self.took_ms,
            status: self.status(),
            error: self.error.clone(),
            response: self.response.clone(),
        }
    }
}

/// The attempts that are kept of a delivery.
pub(crate) fn attempts(log: &str) -> Vec<WebhookAttempt> {
    serde_json::from_str(log).unwrap_or_default()
}

/// The same with one more.
pub(super) fn with_attempt(log: &str, attempt: WebhookAttempt) -> String {
    let mut all = attempts(log);
    all.push(attempt);
    let too_many = all.len().saturating_sub(ATTEMPTS_KEPT);
    all.drain(..too_many);
    serde_json::to_string(&all).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_is_sent_as_a_cloud_event() {
        let event = Event {
            id: 42,
            namespace: Some("a".into()),
            run_id: Some("r".into()),
            worker_id: Some("w".into()),
            ..Event::new("run.ended", Time(1_700_000_000_000))
        };
        let id = DeliveryId::new(1_700_000_000_000, 42, 7);
        let sent: serde_json::Value = serde_json::from_slice(&Message::of(id, &event, "i").body).unwrap();
        let expected = json!({
            "specversion": "1.0", "id": id.to_string(), "source": "/baton/i", "type": "dev.baton.run.ended", "subject": "r",
            "time": "2023-11-14T22:13:20.000Z", "datacontenttype": "application/json",
            "data": { "id": 42, "kind": "run.ended", "at": "2023-11-14T22:13:20.000Z", "namespace": "a", "run_id": "r",
                "worker_id": "w" },
        });
        assert_eq!(sent, expected);
        assert_eq!(subject(&Event { kind: "worker.offline".into(), ..event }), Some("w"));
    }

    #[test]
    fn the_last_attempts_are_kept() {
        let answer = Answer::Status { status: 500, retry_after_ms: None };
        let outcome = Outcome { answer, error: None, response: Some("no".into()), at: 1, took_ms: 2 };
        let log = (1..=25).fold(String::new(), |log, number| with_attempt(&log, outcome.attempt(number)));
        let numbers: Vec<_> = attempts(&log).iter().map(|attempt| attempt.number).collect();
        assert_eq!(numbers, (6..=25).collect::<Vec<_>>());
    }
}
