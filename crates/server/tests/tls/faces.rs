//! A sample of each face.

use std::io::Write;
use std::sync::Arc;

use baton::proto::{Claim, CompleteRun, RegisterWorker, SubmitRun};
use baton::{Context, FileToSend, NewBuild, State, Worker, WorkflowError};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::rig::{KEY, PATIENCE, Rig};

fn worker() -> RegisterWorker {
    RegisterWorker {
        namespace: "default".into(),
        name: Some("w".into()),
        queues: vec!["q".into(), "builds".into()],
        types: vec!["t".into(), "linux".into()],
        hostname: None,
        pid: None,
        version: None,
        labels: Default::default(),
        max_concurrent: Some(10),
        instance: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_submitted_claimed_and_completed_over_http_1() {
    let rig = Rig::start().await;
    let client = rig.client();
    let run = client.submit(&SubmitRun::new("q", "t")).await.unwrap().id;
    let worker = client.register(&worker()).await.unwrap().worker_id;
    let claim = Claim { claim_no: Some(1), ..Claim::default() };
    let claimed = client.claim(&worker, &claim).await.unwrap().runs.remove(0);
    let done = CompleteRun { run_id: None, lease: claimed.lease, output: None };
    client.complete(&claimed.run_id, &done).await.unwrap();
    assert_eq!(client.run(&run).await.unwrap().state, State::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn http_2_is_chosen_by_those_who_can() {
    let rig = Rig::start().await;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(rig.authority.pem().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    for (offered, chosen) in [(vec!["http/1.1", "h2"], "h2"), (vec!["http/1.1"], "http/1.1")] {
        config.alpn_protocols = offered.iter().map(|name| name.as_bytes().to_vec()).collect();
        let tcp = TcpStream::connect(rig.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(Arc::new(config.clone())).connect(name, tcp).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(chosen.as_bytes()));
        if chosen != "h2" {
            continue;
        }
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        for _ in 0..20 {
            let request = http::Request::get(format!("{}/healthz", rig.url())).body(Empty::<Bytes>::new()).unwrap();
            let answer = sender.send_request(request).await.unwrap();
            assert_eq!((answer.status().as_u16(), answer.version()), (200, http::Version::HTTP_2));
            assert!(!answer.into_body().collect().await.unwrap().to_bytes().is_empty());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn workflows_are_played_over_a_grpc_stream() {
    let rig = Rig::start().await;
    let mut worker = Worker::builder(rig.url(), "q").api_key(KEY).tls(rig.trust()).build().await.unwrap();
    worker.register("greet", async |ctx: Context, name: String| {
        let greeting = ctx.step("choose", || async { Ok("hello".to_owned()) }).await?;
        Ok::<_, WorkflowError>(format!("{greeting}, {name}"))
    });
    let working = tokio::spawn(worker.run_until(std::future::pending()));
    let client = baton::Client::connect(rig.url()).api_key(KEY).tls(rig.trust()).await.unwrap();
    let handle = client.start("greet", &"Ada").queue("q").await.unwrap();
    let greeting = tokio::time::timeout(PATIENCE, handle.result::<String>()).await.unwrap().unwrap();
    assert_eq!(greeting, "hello, Ada");
    working.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn files_go_up_and_down_and_logs_are_followed() {
    let rig = Rig::start().await;
    let client = rig.client();
    let content: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&content).unwrap();
    let build = NewBuild {
        platform: "linux".into(),
        project: None,
        priority: None,
        base_image: None,
        source: FileToSend::new(file, "source.tar").unwrap(),
        source_sha256: None,
        certs: None,
    };
    let id = client.submit_build(&build, None, Arc::new(drop)).await.unwrap().id;
    let worker = client.register(&worker()).await.unwrap().worker_id;
    let claim = Claim { queue: Some("builds".into()), wait_ms: Some(10_000), claim_no: Some(1), ..Claim::default() };
    let lease = client.claim(&worker, &claim).await.unwrap().runs.remove(0).lease;
    let target = rig.path("fetched");
    client.download_source(&id, &lease, &target, Arc::new(drop)).await.unwrap();
    assert!(std::fs::read(&target).unwrap() == content, "the file came back changed");

    let mut stream = rig.dial().await;
    let head = format!(
        "GET /api/builds/{id}/logs HTTP/1.1\r\nhost: x\r\nx-api-key: {KEY}\r\naccept: text/event-stream\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut seen = String::new();
    let mut until = async |word: &str| {
        let mut buffer = [0; 4096];
        while !seen.contains(word) {
            let read = tokio::time::timeout(PATIENCE, stream.read(&mut buffer)).await.expect("the stream is silent");
            let read = read.unwrap();
            assert!(read > 0, "the stream ended before {word}: {seen}");
            seen.push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
    };
    until("Build submitted").await;
    let line = serde_json::from_value(serde_json::json!({"level": "info", "message": "first words"})).unwrap();
    client.add_build_logs(&id, &lease, None, vec![line]).await.unwrap();
    until("first words").await;
}
