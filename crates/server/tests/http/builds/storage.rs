//! Files in pieces, and files named by their sum.

use baton::proto::API_KEY_HEADER;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::rig::{Part, text};
use crate::harness::{Answer, KEY, On, Server, on_both};

on_both!(
    a_source_may_come_in_pieces,
    a_result_may_come_in_pieces,
    a_submit_of_an_upload_may_be_repeated,
    an_upload_is_its_owners,
    the_cache_takes_what_its_name_says_and_nothing_else,
    expired_uploads_are_collected,
);

const TUS: (&str, &str) = ("tus-resumable", "1.0.0");

async fn begin(server: &Server, length: usize) -> String {
    let request = server.request("POST", "/api/v1/uploads").header(API_KEY_HEADER, KEY).header(TUS.0, TUS.1);
    let created = server.send(request.header("upload-length", length), "").await;
    assert_eq!(created.status, 201, "{created:?}");
    created.header("location").to_owned()
}

async fn piece(server: &Server, path: &str, offset: usize, bytes: &'static [u8]) -> Answer {
    let request = server.request("PATCH", path).header(API_KEY_HEADER, KEY).header(TUS.0, TUS.1);
    let request = request.header("upload-offset", offset).header("content-type", "application/offset+octet-stream");
    server.send(request, bytes).await
}

async fn offset(server: &Server, path: &str) -> String {
    let request = server.request("HEAD", path).header(API_KEY_HEADER, KEY).header(TUS.0, TUS.1);
    server.send(request, "").await.header("upload-offset").to_owned()
}

fn id_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap()
}

async fn a_source_may_come_in_pieces(on: On) {
    let server = Server::start(on).await;
    let path = begin(&server, 9).await;
    let submit = async || {
        let parts: [Part<'_>; 2] = [("platform", None, b"ios"), ("source_upload", None, id_of(&path).as_bytes())];
        server.post_form("/api/builds", &[], &parts).await
    };
    assert_eq!(piece(&server, &path, 0, b"one ").await.status, 204);
    assert_eq!(submit().await.refusal(), "409 upload_incomplete", "it is not all there");
    assert_eq!(piece(&server, &path, 0, b"again").await.status, 409, "the client asks where it is");
    assert_eq!(offset(&server, &path).await, "4");
    assert_eq!(piece(&server, &path, 4, b"piece").await.status, 204);
    let build = submit().await;
    assert_eq!(build.status, 201, "{build:?}");
    let id = text(&build.json()["id"]);
    let source = server.call("GET", &format!("/api/builds/{id}/download/source"), "").await;
    assert_eq!(&source.body[..], b"one piece");
    assert_eq!(submit().await.status, 404, "it was used up");
}

async fn a_result_may_come_in_pieces(on: On) {
    let server = Server::start(on).await;
    let (id, builder) = server.held_build().await;
    let path = begin(&server, 6).await;
    assert_eq!(piece(&server, &path, 0, b"an app").await.status, 204);
    let url = format!("/api/builds/{id}/artifact?name=app.ipa&upload={}", id_of(&path));
    for _ in 0..2 {
        let answer = server.post_with(&url, &builder.headers(), json!({})).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(server.build_status(&id).await, "completed");
    }
    let other = begin(&server, 7).await;
    assert_eq!(piece(&server, &other, 0, b"another").await.status, 204);
    let url = format!("/api/builds/{id}/artifact?upload={}", id_of(&other));
    let late = server.post_with(&url, &builder.headers(), json!({})).await;
    assert_eq!(late.refusal(), "409 ended", "it was completed with another");
    assert_eq!(&server.call("GET", &format!("/api/builds/{id}/download"), "").await.body[..], b"an app");
}

async fn a_submit_of_an_upload_may_be_repeated(on: On) {
    let server = Server::start(on).await;
    let path = begin(&server, 9).await;
    assert_eq!(piece(&server, &path, 0, b"one piece").await.status, 204);
    let submit = async |platform: &'static str, key: &str| {
        let parts: [Part<'_>; 2] =
            [("platform", None, platform.as_bytes()), ("source_upload", None, id_of(&path).as_bytes())];
        server.post_form("/api/builds", &[("idempotency-key", key)], &parts).await
    };
    assert_eq!(submit("no such platform", "once").await.status, 400);
    let first = submit("ios", "once").await;
    assert_eq!(first.status, 201, "a refusal does not use it up: {first:?}");
    assert_eq!(submit("ios", "once").await.json()["id"], first.json()["id"]);
    assert_eq!(submit("ios", "twice").await.status, 404, "it was used up by another call");
    server.collect().await;
    let source = format!("/api/builds/{}/download/source", text(&first.json()["id"]));
    assert_eq!(&server.call("GET", &source, "").await.body[..], b"one piece");
}

async fn an_upload_is_its_owners(on: On) {
    let server = Server::start(on).await;
    let path = begin(&server, 4).await;
    let wanted = baton::proto::CreateKey {
        name: "other".into(),
        scopes: vec!["submit".into()],
        namespace: None,
        expires_in_ms: None,
    };
    let other = server.client.create_key(&wanted).await.unwrap().key;
    let request = server.request("HEAD", &path).header(API_KEY_HEADER, &other).header(TUS.0, TUS.1);
    assert_eq!(server.send(request, "").await.status, 404);
    let request = server.request("HEAD", &path).header(TUS.0, TUS.1);
    assert_eq!(server.send(request, "").await.status, 401);
    let read = baton::proto::CreateKey {
        name: "read".into(),
        scopes: vec!["read".into()],
        namespace: None,
        expires_in_ms: None,
    };
    let read = server.client.create_key(&read).await.unwrap().key;
    let request = server.request("POST", "/api/v1/uploads").header(API_KEY_HEADER, &read).header(TUS.0, TUS.1);
    assert_eq!(server.send(request.header("upload-length", 4), "").await.status, 403);
}

async fn the_cache_takes_what_its_name_says_and_nothing_else(on: On) {
    let server = Server::start(on).await;
    let bytes = b"a base image";
    let sum: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    let path = format!("/api/v1/cache/{sum}");
    assert_eq!(server.call("GET", &path, "").await.refusal(), "404 not_found");
    assert_eq!(server.call("PUT", &path, "something else").await.refusal(), "400 malformed");
    assert_eq!(server.call("GET", &path, "").await.status, 404, "nothing of it was kept");
    assert_eq!(server.call("PUT", &path, &bytes[..]).await.status, 201);
    assert_eq!(server.call("PUT", &path, &bytes[..]).await.status, 201);
    let found = server.call("GET", &path, "").await;
    assert_eq!((&found.body[..], found.header("etag")), (&bytes[..], format!("\"{sum}\"").as_str()));
    assert_eq!(server.call("PUT", "/api/v1/cache/..%2Fx", "y").await.refusal(), "422 invalid");
}

async fn expired_uploads_are_collected(on: On) {
    let server = Server::start(on).await;
    let path = begin(&server, 4).await;
    server.clock.advance(server.settings.upload_expiry_ms as i64 + 1);
    server.collect().await;
    assert_eq!(piece(&server, &path, 0, b"late").await.status, 404);
}
