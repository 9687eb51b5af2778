//! Whom clients trust, and what they are told when they do not.

use std::time::{Duration, Instant};

use baton::{Client, ClientError, Tls};
use baton_testkit::Authority;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::rig::{KEY, NAMES, Rig};

/// What a client is told, over HTTP and over gRPC: both times at once, and for good.
async fn told(url: &str, tls: &Tls) -> String {
    let begun = Instant::now();
    let http = Client::new_with_tls(url, KEY, tls).unwrap().healthz().await.unwrap_err();
    let grpc = Client::connect(url).api_key(KEY).tls(tls.clone()).await.unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(5), "it took {:?}", begun.elapsed());
    for error in [&http, &grpc] {
        assert!(matches!(error, ClientError::Untrusted(_)) && !error.is_transient(), "{error:?}");
    }
    assert_eq!(http.to_string(), grpc.to_string());
    http.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_that_is_not_known_is_not_believed() {
    let rig = Rig::start().await;
    let said = told(&rig.url(), &Tls::new()).await;
    assert!(said.contains("--ca FILE") && said.contains(&rig.shown().await), "{said}");
    rig.client().healthz().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_whose_time_is_over_is_not_believed() {
    let rig = Rig::with(|authority| authority.expired(&NAMES), |_, _| {}).await;
    let said = told(&rig.url(), &rig.trust()).await;
    assert!(said.contains("the time of its certificate is over") && said.contains("docs/tls.md"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_for_another_host_is_not_believed() {
    let rig = Rig::with(|authority| authority.server(&["baton.example"]), |_, _| {}).await;
    let said = told(&rig.url(), &rig.trust()).await;
    assert!(said.contains("not for 127.0.0.1, but for baton.example"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fingerprint_is_believed_and_no_other() {
    let rig = Rig::with(|authority| authority.expired(&["baton.example"]), |_, _| {}).await;
    let own = baton_server::tls::look(&rig.path("server.crt")).unwrap().fingerprint;
    let foreign = format!("sha256:{}", "0".repeat(64));
    rig.client_with(KEY, &Tls::new().pin(&own).unwrap()).healthz().await.unwrap();
    Client::connect(rig.url()).api_key(KEY).tls(Tls::new().pin(&format!("{foreign},{own}")).unwrap()).await.unwrap();
    let said = told(&rig.url(), &Tls::new().pin(&foreign).unwrap()).await;
    assert!(said.contains(&own) && said.contains(&foreign), "{said}");
    // A file is read each time, and says whom to believe besides others.
    let file = rig.path("pins");
    let client = rig.client_with(KEY, &Tls::new().pin_file(&file));
    assert!(matches!(client.healthz().await, Err(ClientError::Untrusted(_))));
    std::fs::write(&file, format!("{foreign}\n{own}\n")).unwrap();
    client.healthz().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn http_on_the_port_of_tls_is_told_what_to_use() {
    let rig = Rig::start().await;
    let mut stream = rig.connect().await;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("use https://"), "{answer}");
    let url = format!("http://{}", rig.address);
    let http = Client::new(&url, KEY).unwrap().healthz().await.unwrap_err();
    assert!(!http.is_transient() && http.to_string().contains("use https://"), "{http:?}");
    let grpc = Client::connect(&url).api_key(KEY).await.unwrap_err();
    assert!(!grpc.is_transient() && grpc.to_string().contains("use https://"), "{grpc:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_on_a_port_without_is_told_what_to_use() {
    // It answers a handshake as any server of HTTP does.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut buffer = [0; 4096];
            let _ = stream.read(&mut buffer).await;
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
        }
    });
    let said = told(&url, &Tls::new()).await;
    assert!(said.contains("speaks no TLS: use http://"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_does_not_start_with_files_that_do_not_belong_together() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let (certificate, _) = authority.server(&NAMES).write(directory.path(), "one");
    let (_, key) = authority.server(&NAMES).write(directory.path(), "two");
    let open = |certificate: &std::path::Path, key: &std::path::Path| {
        let text = |path: &std::path::Path| Some(path.to_str().unwrap().to_owned());
        let settings = baton_server::Settings { tls_cert: text(certificate), tls_key: text(key), ..Default::default() };
        baton_server::tls::Tls::open(&settings).unwrap_err()
    };
    let said = open(&certificate, &key);
    assert!(said.contains("does not belong to the certificate"), "{said}");
    let said = open(&key, &certificate);
    assert!(said.contains("there is no certificate in it"), "{said}");
    let said = open(&directory.path().join("none"), &key);
    assert!(said.contains("cannot read"), "{said}");
}
