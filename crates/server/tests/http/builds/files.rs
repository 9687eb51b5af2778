//! Files: only for whom they are, in parts, and nothing left behind.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use baton::proto::API_KEY_HEADER;
use serde_json::json;

use super::rig::{Part, SOURCE, text};
use crate::harness::{KEY, On, Server, on_both};
use crate::lossy_store::LossyStore;

on_both!(
    only_the_holder_gets_the_source,
    downloads_come_in_parts_and_with_a_tag,
    certificates_are_sealed_given_to_the_holder_and_written_down,
    a_lease_brings_certificates_with_a_key_of_its_namespace_only,
    the_cache_of_a_namespace_is_its_own,
    files_that_nobody_can_read_are_collected,
    a_quota_is_kept,
    a_submit_whose_answer_was_lost_keeps_its_source,
);

async fn only_the_holder_gets_the_source(on: On) {
    let server = Server::start(on).await;
    let (id, holder) = server.held_build().await;
    let path = format!("/api/builds/{id}/source");
    assert_eq!(server.get_with(&path, &[]).await.refusal(), "401 no_credential");
    assert_eq!(server.get_with(&path, &[(API_KEY_HEADER, KEY)]).await.refusal(), "401 no_credential");
    let other = server.builder("other").await;
    assert_eq!(server.get_with(&path, &other.headers()).await.refusal(), "403 forbidden");
    let by_id = [(API_KEY_HEADER, KEY), ("x-worker-id", holder.id.as_str())];
    assert_eq!(&server.get_with(&path, &by_id).await.body[..], SOURCE);
    assert_eq!(server.get_with(&path, &holder.headers()).await.status, 200);
}

async fn downloads_come_in_parts_and_with_a_tag(on: On) {
    let server = Server::start(on).await;
    let (id, builder) = server.held_build().await;
    builder.upload(&server, &id, b"0123456789").await;
    let path = format!("/api/builds/{id}/download");
    let get = async |name: &str, value: &str| server.get_with(&path, &[(API_KEY_HEADER, KEY), (name, value)]).await;
    let whole = get("x", "y").await;
    let tag = whole.header("etag").to_owned();
    assert_eq!((whole.status, whole.header("accept-ranges"), whole.header("content-length")), (200, "bytes", "10"));
    let part = get("range", "bytes=2-4").await;
    assert_eq!((part.status, &part.body[..], part.header("content-range")), (206, &b"234"[..], "bytes 2-4/10"));
    assert_eq!(&get("range", "bytes=-3").await.body[..], b"789");
    assert_eq!(get("range", "bytes=20-").await.status, 416);
    assert_eq!(get("if-none-match", &tag).await.status, 304);
}

pub fn certs() -> Vec<u8> {
    let mut archive = baton_archive_writer();
    archive.add("certs/dist.p12", b"p12 bytes");
    archive.add("certs/password.txt", b"secret\n");
    archive.add("profiles/app.mobileprovision", b"profile");
    archive.finish()
}

/// The smallest zip there is: stored entries.
struct Zip {
    body: Vec<u8>,
    directory: Vec<u8>,
    count: u16,
}

fn baton_archive_writer() -> Zip {
    Zip { body: vec![], directory: vec![], count: 0 }
}

impl Zip {
    fn add(&mut self, name: &str, bytes: &[u8]) {
        let (offset, sum) = (self.body.len() as u32, crc32(bytes));
        let mut head = Vec::new();
        head.extend_from_slice(&[20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0]);
        head.extend_from_slice(&sum.to_le_bytes());
        head.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        head.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        head.extend_from_slice(&(name.len() as u16).to_le_bytes());
        head.extend_from_slice(&[0, 0]);
        self.body.extend_from_slice(b"PK\x03\x04");
        self.body.extend_from_slice(&head);
        self.body.extend_from_slice(name.as_bytes());
        self.body.extend_from_slice(bytes);
        self.directory.extend_from_slice(b"PK\x01\x02\x14\0");
        self.directory.extend_from_slice(&head);
        self.directory.extend_from_slice(&[0; 10]);
        self.directory.extend_from_slice(&offset.to_le_bytes());
        self.directory.extend_from_slice(name.as_bytes());
        self.count += 1;
    }

    fn finish(mut self) -> Vec<u8> {
        let (start, length) = (self.body.len() as u32, self.directory.len() as u32);
        self.body.append(&mut self.directory);
        self.body.extend_from_slice(b"PK\x05\x06\0\0\0\0");
        self.body.extend_from_slice(&self.count.to_le_bytes());
        self.body.extend_from_slice(&self.count.to_le_bytes());
        self.body.extend_from_slice(&length.to_le_bytes());
        self.body.extend_from_slice(&start.to_le_bytes());
        self.body.extend_from_slice(&[0, 0]);
        self.body
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 })
    };
    !bytes.iter().fold(!0, step)
}

async fn worker_key(server: &Server, namespace: &str) -> String {
    let wanted = json!({"name": "x", "scopes": ["worker"], "namespace": namespace}).to_string();
    text(&server.call("POST", "/api/v1/keys", wanted).await.json()["key"])
}

async fn a_lease_brings_certificates_with_a_key_of_its_namespace_only(on: On) {
    let server = Server::start(on).await;
    let archive = certs();
    let (id, _) = server.submit_build_with(&[("certs", Some("certs.zip"), &archive)]).await;
    let (own, foreign) = (worker_key(&server, "default").await, worker_key(&server, "team").await);
    let worker = server.client.register(&crate::harness::worker("native")).await.unwrap().worker_id;
    let lease = server.claim(&worker).await.lease;
    for path in [format!("/api/builds/{id}/certs"), format!("/api/builds/{id}/source")] {
        let get = async |key: &str| server.get_with(&path, &[(API_KEY_HEADER, key), ("x-lease", &lease)]).await;
        assert_eq!(get(&own).await.status, 200, "{path}");
        assert_eq!(get(&foreign).await.refusal(), "403 forbidden", "{path}");
        let alone = server.get_with(&path, &[("x-lease", &lease)]).await;
        assert_eq!(alone.refusal(), "401 no_credential", "{path}");
    }
}

async fn the_cache_of_a_namespace_is_its_own(on: On) {
    let server = Server::start(on).await;
    let (alpha, beta) = (worker_key(&server, "alpha").await, worker_key(&server, "beta").await);
    let path = format!("/api/v1/cache/{}", baton_server::artifacts::Sha256Sum::of(b"an image"));
    let put = async |key: &str, body: &str| server.with_headers("PUT", &path, &[(API_KEY_HEADER, key)], body).await;
    let get = async |key: &str| server.get_with(&path, &[(API_KEY_HEADER, key)]).await;
    assert_eq!(put(&alpha, "an image").await.status, 201);
    assert_eq!(put(&alpha, "").await.status, 201, "it is there");
    assert_eq!((get(&alpha).await.status, get(&beta).await.status, get(KEY).await.status), (200, 404, 404));
    assert_eq!(put(&beta, "").await.refusal(), "400 malformed", "an empty file has another sum");
    assert_eq!(get(&beta).await.refusal(), "404 not_found");

    let shared = Server::with(on, |settings| settings.cache_shared_namespace = Some("alpha".into())).await;
    let (alpha, beta) = (worker_key(&shared, "alpha").await, worker_key(&shared, "beta").await);
    let put = async |key: &str, body: &str| shared.with_headers("PUT", &path, &[(API_KEY_HEADER, key)], body).await;
    assert_eq!(put(&alpha, "an image").await.status, 201);
    let found = shared.get_with(&path, &[(API_KEY_HEADER, &beta)]).await;
    assert_eq!((found.status, &found.body[..]), (200, &b"an image"[..]));
}

async fn certificates_are_sealed_given_to_the_holder_and_written_down(on: On) {
    let server = Server::start(on).await;
    let archive = certs();
    let part: Part<'_> = ("certs", Some("certs.zip"), &archive);
    let (id, build_token) = server.submit_build_with(&[part]).await;
    let mut builder = server.builder("one").await;
    let job = builder.poll(&server).await;
    let whole = server.get_with(&text(&job["certs_url"]), &builder.headers()).await;
    assert_eq!((whole.status, &whole.body[..]), (200, &archive[..]));
    let path = format!("/api/builds/{id}/certs-secure");
    assert_eq!(server.get_with(&path, &builder.headers()).await.refusal(), "403 forbidden", "X-Build-Id is missing");
    let headers = [builder.headers()[0], builder.headers()[1], ("x-build-id", id.as_str())];
    let parts = server.get_with(&path, &headers).await.json();
    let decoded = |value: &serde_json::Value| STANDARD.decode(value.as_str().unwrap()).unwrap();
    assert_eq!((decoded(&parts["p12"]), parts["p12Password"].clone()), (b"p12 bytes".to_vec(), json!("secret")));
    assert_eq!(decoded(&parts["provisioningProfiles"][0]), b"profile");
    let again = server.get_with(&path, &headers).await.json();
    assert_ne!(parts["keychainPassword"], again["keychainPassword"], "a fresh one each time");
    for (name, value) in [("x-build-token", build_token.as_str()), (API_KEY_HEADER, KEY)] {
        assert_eq!(server.get_with(&path, &[(name, value), ("x-build-id", &id)]).await.status, 401, "{name}");
    }
    let lines = server.client.audit_log(None, None).await.unwrap().lines;
    assert_eq!(lines.iter().filter(|line| line.action == "certs.read" && line.subject == id).count(), 3);
    let root = server.settings.storage_url.clone().unwrap();
    for name in server.stored_files().iter().filter(|name| name.ends_with("certs")) {
        let bytes = std::fs::read(format!("{root}/{name}")).unwrap();
        assert!(!bytes.windows(6).any(|window| window == b"secret"), "it is readable on the disk");
    }
    builder.upload(&server, &id, b"done").await;
    assert_eq!(server.get_with(&path, &headers).await.status, 409, "the lease is over");
}

async fn files_that_nobody_can_read_are_collected(on: On) {
    let server = Server::start(on).await;
    let (id, builder) = server.held_build().await;
    // A result that was stored, but whose lease did not complete the build.
    let request = server.request("POST", &format!("/api/builds/{id}/artifact?complete=false"));
    let request = request.header(API_KEY_HEADER, KEY).header("x-worker-token", &builder.token);
    assert_eq!(server.send(request, &b"half"[..]).await.status, 200);
    server.post_with("/api/workers/abandon", &builder.headers(), json!({"build_id": id})).await;
    let mut next = server.builder("next").await;
    assert_eq!(next.poll(&server).await["id"], id.as_str());
    assert_eq!(next.upload(&server, &id, b"whole").await.status, 200);
    assert_eq!(server.stored_files().len(), 3);
    server.collect().await;
    assert_eq!(server.stored_files().len(), 2, "the source and the result that counts");
    assert_eq!(&server.call("GET", &format!("/api/builds/{id}/download"), "").await.body[..], b"whole");
}

async fn a_submit_whose_answer_was_lost_keeps_its_source(on: On) {
    let mut lossy = None;
    let server = Server::over(on, |store| lossy.insert(LossyStore::before(store)).clone()).await;
    lossy.as_ref().unwrap().lose_submits(1);
    let submit = async || {
        let parts: [Part<'_>; 2] = [("platform", None, b"ios"), ("source", Some("a.zip"), SOURCE)];
        server.post_form("/api/builds", &[("idempotency-key", "once")], &parts).await
    };
    assert_eq!(submit().await.refusal(), "503 unavailable");
    let again = submit().await;
    assert_eq!(again.status, 201, "{again:?}");
    let path = format!("/api/builds/{}/download/source", text(&again.json()["id"]));
    assert_eq!(&server.call("GET", &path, "").await.body[..], SOURCE);
}

async fn a_quota_is_kept(on: On) {
    let server = Server::with(on, |settings| settings.storage_bytes_max = Some(SOURCE.len() as u64)).await;
    server.submit_build().await;
    let parts: [Part<'_>; 2] = [("platform", None, b"ios"), ("source", Some("a.zip"), b"one byte more")];
    let answer = server.post_form("/api/builds", &[], &parts).await;
    assert_eq!(answer.refusal(), "507 quota_reached");
    assert_eq!(server.stored_files().len(), 1);
}
