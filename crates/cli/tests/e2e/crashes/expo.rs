//! A build whose files are bodies of calls: submitted twice, refused once, built by a builder that forgets itself once.

use serde_json::{Value, json};

use super::yard::{Submitted, Yard};
use crate::stored::file;
use crate::wire::{Field, Request};

const CERTS: &[u8] = b"PK\x03\x04 certificates, which the server does not look into";

/// A builder of the polling protocol, and its newest token.
pub struct Builder {
    pub name: String,
    pub token: String,
}

impl Builder {
    pub async fn register(yard: &mut Yard) -> Builder {
        let name = format!("builder-{}", yard.story());
        let capabilities = json!({"platforms": ["ios"], "maxConcurrentBuilds": 1});
        let registration = json!({"id": name, "name": name, "capabilities": capabilities});
        let registered = yard.ask(&Request::post("/api/workers/register").json(&registration)).await;
        assert_eq!(registered.status, 200, "{registered:?}");
        Builder { token: registered.text("access_token"), name }
    }

    pub fn with_token(&self, request: Request) -> Request {
        request.header("x-worker-token", &self.token)
    }

    /// Polls until this build comes.
    pub async fn wait_for(&mut self, yard: &mut Yard, id: &str) -> Value {
        loop {
            let polled = yard.ask(&self.with_token(Request::get("/api/workers/poll"))).await;
            assert_eq!(polled.status, 200, "{} was locked out: {polled:?}", self.name);
            self.token = polled.text("access_token");
            let job = polled.json()["job"].clone();
            if !job.is_null() {
                assert_eq!(job["id"], id, "all others have ended");
                return job;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }

    /// Fetches the source of a build it has, and says something.
    pub async fn begin(&self, yard: &mut Yard, id: &str, source: &[u8]) {
        let fetched = yard.ask(&self.with_token(Request::get(&format!("/api/builds/{id}/source")))).await;
        assert!(fetched.status == 200 && fetched.body == source, "{fetched:?}");
        let line = json!({"level": "info", "message": "compiling"});
        let logged = self.with_token(Request::post(&format!("/api/builds/{id}/logs")).json(&line));
        assert_eq!(yard.ask(&logged).await.status, 200);
    }
}

/// Demands what the submitter of a completed build gets.
pub async fn assert_downloads(yard: &mut Yard, id: &str, source: &[u8], result: &[u8]) {
    for (path, wanted) in [("download", result), ("download/source", source)] {
        let fetched = yard.ask(&Request::get(&format!("/api/builds/{id}/{path}"))).await;
        assert!(fetched.status == 200 && fetched.body == wanted, "{path}: {fetched:?}");
    }
}

pub async fn submit(yard: &mut Yard) -> Submitted {
    let source = yard.bytes(1);
    let key = format!("story-{}", yard.story());
    let submit = |platform: &'static str| {
        Request::post("/api/builds").header("idempotency-key", &key).form(&[
            ("platform", None, platform.as_bytes()),
            ("certs", Some("certs.zip"), CERTS),
            ("source", Some("app.zip"), &source),
        ])
    };
    let submitted = yard.ask(&submit("ios")).await;
    assert_eq!(submitted.status, 201, "{submitted:?}");
    let id = submitted.text("id");
    assert_eq!(yard.ask(&submit("ios")).await.text("id"), id, "the same call gives the same build");
    let refused = yard.ask(&submit("no such platform")).await;
    assert_eq!(refused.status, 400, "{refused:?}");
    Submitted { id, source }
}

/// The fields of a result. Where the server is to die with a file that is no build's, the file
/// comes first.
fn result_form<'a>(yard: &Yard, id: &'a str, name: &'a str, result: &'a [u8]) -> Vec<Field<'a>> {
    let file: Field<'_> = ("result", Some("app.ipa"), result);
    let mut fields: Vec<Field<'_>> =
        vec![("build_id", None, id.as_bytes()), ("worker_id", None, name.as_bytes()), ("success", None, b"true")];
    let file_first = yard.dies_at("result.drafted") || yard.dies_at("result.bound");
    fields.insert(if file_first { 0 } else { fields.len() }, file);
    fields
}

pub async fn build(yard: &mut Yard, Submitted { id, source }: Submitted) {
    let result = yard.bytes(2);
    let mut builder = Builder::register(yard).await;
    builder.wait_for(yard, &id).await;
    // It was started anew, and does not know what it had.
    let mut builder = Builder::register(yard).await;
    builder.wait_for(yard, &id).await;
    builder.begin(yard, &id, &source).await;
    let certs = yard.ask(&builder.with_token(Request::get(&format!("/api/builds/{id}/certs")))).await;
    assert!(certs.status == 200 && certs.body == CERTS, "{certs:?}");
    let form = result_form(yard, &id, &builder.name, &result);
    let upload = builder.with_token(Request::post("/api/workers/upload")).form(&form);
    let uploaded = yard.ask(&upload).await;
    assert_eq!(uploaded.status, 200, "{uploaded:?}");
    assert_downloads(yard, &id, &source, &result).await;
    yard.expect(id, vec![file("source", &source), file("certs", CERTS), file("result", &result)]);
}
