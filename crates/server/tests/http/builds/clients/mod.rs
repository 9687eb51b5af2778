//! What the command lines, workers and machines of Expo Free Agent send, and what they demand of
//! the answers.

mod submitters;
mod workers;

use serde_json::{Value, json};

use crate::builds::rig::{Builder, text};
use crate::harness::Server;

async fn status(server: &Server, id: &str) -> Value {
    server.call("GET", &format!("/api/builds/{id}/status"), "").await.json()
}

/// The token of a machine that builds it.
async fn machine(server: &Server, id: &str, builder: &Builder) -> String {
    // Its password comes with the job, which a poll brings again until it is begun.
    let polled = server.call("GET", &format!("/api/workers/poll?worker_id={}", builder.id), "").await.json();
    let otp = json!({"otp": polled["job"]["otp"]});
    text(&server.post_with(&format!("/api/builds/{id}/authenticate"), &[], otp).await.json()["vm_token"])
}

async fn messages(server: &Server, id: &str) -> Vec<String> {
    let logs = server.call("GET", &format!("/api/builds/{id}/logs"), "").await.json();
    assert_eq!(logs["build_id"], id);
    let lines = logs["logs"].as_array().unwrap();
    assert!(lines.iter().all(|line| line["build_id"] == id && line["timestamp"].is_string()), "{logs}");
    lines.iter().map(|line| text(&line["message"])).collect()
}
