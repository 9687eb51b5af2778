//! The request log: one line for each request, with the request's name in all that it causes.

use std::time::Duration;

use baton::proto::{Claim, SubmitRun};
use baton::{Client, ClientError};
use baton_testkit::Baton;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::wait::eventually;

const KEY: &str = "a-key-for-the-request-log";
/// How long a claim waits for work that does not come.
const WAIT_MS: u64 = 300;

async fn serve(data: &std::path::Path, arguments: &[&str], environment: &[(&str, &str)]) -> Baton {
    let own = ["--data", data.to_str().unwrap(), "--api-key", KEY];
    Baton::serve(&[&own[..], arguments].concat(), environment).await
}

/// The lines about requests that were written so far.
fn lines(output: &str) -> Vec<Value> {
    let lines = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["target"] == "baton_server::request").collect()
}

async fn line(server: &mut Baton, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    let process = server.process();
    eventually(what, || async { lines(&process.output()).into_iter().find(|line| is_it(&line["fields"])) }).await
}

/// Sends a request as it is, and returns the whole answer.
async fn send(server: &Baton, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(&server.url()["http://".len()..]).await.unwrap();
    let request = format!("{head}\r\nhost: baton\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn each_request_is_a_line_with_its_route_and_never_its_path() {
    let home = tempfile::tempdir().unwrap();
    let mut server = serve(home.path(), &["--log-format", "json"], &[]).await;
    let client = Client::new(&server.url(), KEY).unwrap();
    let run = client.submit(&SubmitRun::new("builds", "ios")).await.unwrap().id;
    let submitted = line(&mut server, "the submit", |fields| fields["route"] == "/api/v1/runs").await["fields"].clone();
    assert_eq!((&submitted["method"], &submitted["status"]), (&json!("POST"), &json!(201)), "{submitted}");
    assert_eq!((&submitted["key"], submitted.get("aborted")), (&json!("settings"), None), "{submitted}");
    assert!(submitted["duration_ms"].as_f64().unwrap() > 0.0 && submitted["request_id"].is_string(), "{submitted}");

    client.run(&run).await.unwrap();
    let read = line(&mut server, "the read", |fields| fields["route"] == "/api/v1/runs/{id}").await;
    assert!(!read.to_string().contains(&run), "a path may hold anything: {read}");

    // One that nobody knows, with a name of its caller's.
    let head = format!("GET /api/v1/runs/secret-path HTTP/1.1\r\nx-request-id: mine-17\r\nx-api-key: {KEY}");
    let answer = send(&server, &head, "").await;
    assert!(answer.to_lowercase().contains("x-request-id: mine-17"), "{answer}");
    assert!(answer.contains(r#""request_id":"mine-17""#), "errors name the request: {answer}");
    let refused = line(&mut server, "the refusal", |fields| fields["request_id"] == "mine-17").await;
    assert_eq!(refused["fields"]["status"], 404);
    let answer = send(&server, "GET /nowhere/secret-path HTTP/1.1\r\nx-request-id: mine-18", "").await;
    assert!(answer.contains(r#""request_id":"mine-18""#), "{answer}");
    let lost = line(&mut server, "the path that is not there", |fields| fields["request_id"] == "mine-18").await;
    assert_eq!((&lost["fields"]["route"], lost["fields"].get("key")), (&json!("none"), None));

    // What waits is there with all of its wait.
    let worker = json!({"name": "w", "queues": ["idle"], "types": ["none"], "max_concurrent": 1});
    let worker = client.register(&serde_json::from_value(worker).unwrap()).await.unwrap().worker_id;
    let claim = Claim { wait_ms: Some(WAIT_MS), ..Claim::default() };
    assert!(client.claim(&worker, &claim).await.unwrap().runs.is_empty());
    let claimed = line(&mut server, "the claim", |fields| fields["route"] == "/api/v1/workers/{id}/claim").await;
    assert!(claimed["fields"]["duration_ms"].as_f64().unwrap() >= WAIT_MS as f64, "{claimed}");

    assert_eq!(server.stop().await.code(), Some(0));
    let output = server.process().output();
    assert!(!output.contains("secret-path") && !output.contains(KEY), "{output}");
    assert!(!lines(&output).iter().any(|line| line["fields"]["route"] == "/readyz"), "probes are at debug: {output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_grpc_are_lines_too() {
    let home = tempfile::tempdir().unwrap();
    let mut server = serve(home.path(), &["--log-format", "json"], &[]).await;
    let client = Client::new(&server.url(), KEY).unwrap();
    let found = client.workflow("0192f0c1-0000-7000-8000-000000000000").get().await.map(|_| ());
    assert!(matches!(found, Err(ClientError::Refused { .. })), "{found:?}");
    let read = line(&mut server, "the call", |fields| fields["code"] == "NOT_FOUND").await;
    assert_eq!(read["fields"]["message"], "call", "{read}");
    assert!(read["fields"]["method"].as_str().unwrap().starts_with("baton.v1.WorkflowService/"), "{read}");
    assert_eq!(read["fields"]["key"], "settings");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setting_turns_the_lines_off_and_text_is_for_people() {
    let home = tempfile::tempdir().unwrap();
    let mut server = serve(home.path(), &[], &[]).await;
    let client = Client::new(&server.url(), KEY).unwrap();
    client.submit(&SubmitRun::new("builds", "ios")).await.unwrap();
    let said = server.process().wait_for_line("/api/v1/runs", Duration::from_secs(20)).await;
    assert!(said.contains("INFO baton_server::request: request method=\"POST\""), "{said}");
    server.restart_with(&[("BATON_REQUEST_LOG", Some("false"))]).await;
    client.submit(&SubmitRun::new("builds", "ios")).await.unwrap();
    assert_eq!(server.stop().await.code(), Some(0));
    assert!(!server.process().output().contains("baton_server::request"), "{}", server.process().output());
}
