//! Examples of the bodies that everybody sends, by the name of their operation.

pub(super) const EXAMPLES: [(&str, &str); 10] = [
    (
        "submitRun",
        r#"{"queue": "mail", "type": "send", "input": {"to": "ada@example.org"}, "retry": {"max_attempts": 5}}"#,
    ),
    (
        "submitRuns",
        r#"{"runs": [{"queue": "mail", "type": "send", "input": 1}, {"queue": "mail", "type": "send", "input": 2}]}"#,
    ),
    ("registerWorker", r#"{"name": "mailer-1", "queues": ["mail"], "types": ["send"], "max_concurrent": 4}"#),
    ("claimRuns", r#"{"queue": "mail", "max": 4, "wait_ms": 30000, "claim_no": 1}"#),
    (
        "sendHeartbeat",
        r#"{"leases": [{"run_id": "0198f6a2-7c00-7000-8000-3f1c5d9e2b7a", "lease": "as the claim gave it"}]}"#,
    ),
    ("completeRun", r#"{"lease": "as the claim gave it", "output": {"message_id": "m-17"}}"#),
    ("failRun", r#"{"lease": "as the claim gave it", "error": "the mail server refused it", "code": "refused"}"#),
    (
        "createBulkOperation",
        r#"{"action": "cancel", "filter": {"queue": "mail", "state": ["sleeping"]}, "rate_per_second": 500, "reason": "wrong template"}"#,
    ),
    (
        "createSchedule",
        r#"{"id": "nightly", "cron": "0 3 * * *", "time_zone": "Europe/Berlin", "run": {"queue": "mail", "type": "digest"}}"#,
    ),
    (
        "createWebhook",
        r#"{"name": "ci", "url": "https://ci.example.org/baton", "filter": {"queue": "mail", "kinds": ["run.ended"]}}"#,
    ),
];

#[cfg(test)]
mod tests {
    use baton_proto::{
        Claim, CompleteRun, CreateBulk, CreateSchedule, CreateWebhook, FailRun, Heartbeat, RegisterWorker, SubmitBatch,
        SubmitRun,
    };
    use serde::de::DeserializeOwned;

    use super::*;

    fn read<T: DeserializeOwned>(id: &str) {
        let (_, example) = EXAMPLES.iter().find(|(of, _)| *of == id).expect(id);
        if let Err(error) = serde_json::from_str::<T>(example) {
            panic!("the example of {id} does not fit: {error}");
        }
    }

    #[test]
    fn every_example_is_what_its_operation_takes() {
        read::<SubmitRun>("submitRun");
        read::<SubmitBatch>("submitRuns");
        read::<RegisterWorker>("registerWorker");
        read::<Claim>("claimRuns");
        read::<Heartbeat>("sendHeartbeat");
        read::<CompleteRun>("completeRun");
        read::<FailRun>("failRun");
        read::<CreateSchedule>("createSchedule");
        read::<CreateBulk>("createBulkOperation");
        read::<CreateWebhook>("createWebhook");
    }
}
