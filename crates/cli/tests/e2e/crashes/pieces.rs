//! A build whose files come in pieces (tus): each call about an upload is repeated, and goes on where the server says it is.

use super::expo::{Builder, assert_downloads};
use super::yard::{Submitted, Yard};
use crate::stored::file;
use crate::wire::Request;

fn tus(method: &str, path: &str) -> Request {
    Request::new(method, path).header("tus-resumable", "1.0.0")
}

/// Uploads bytes in two pieces, and returns the name of the upload.
async fn upload(yard: &mut Yard, bytes: &[u8]) -> String {
    let created = yard.ask(&tus("POST", "/api/v1/uploads").header("upload-length", bytes.len())).await;
    assert_eq!(created.status, 201, "{created:?}");
    let path = created.header("location").expect("an upload is somewhere").to_owned();
    loop {
        let seen = yard.ask(&tus("HEAD", &path)).await;
        assert_eq!(seen.status, 200, "{seen:?}");
        let offset: usize = seen.header("upload-offset").and_then(|offset| offset.parse().ok()).expect("an offset");
        if offset == bytes.len() {
            return path.rsplit('/').next().unwrap_or_default().to_owned();
        }
        let half = bytes.len() / 2;
        let end = if offset < half { half } else { bytes.len() };
        let piece = tus("PATCH", &path).header("upload-offset", offset);
        let piece = piece.header("content-type", "application/offset+octet-stream").body(&bytes[offset..end]);
        let sent = yard.ask(&piece).await;
        // 409 says that the piece is there already: its first answer was lost.
        assert!(matches!(sent.status, 204 | 409), "{sent:?}");
    }
}

pub async fn submit(yard: &mut Yard) -> Submitted {
    let source = yard.bytes(1);
    let pieces = upload(yard, &source).await;
    let submit = Request::post("/api/builds")
        .header("idempotency-key", format!("story-{}", yard.story()))
        .form(&[("platform", None, b"ios"), ("source_upload", None, pieces.as_bytes())]);
    let submitted = yard.ask(&submit).await;
    assert_eq!(submitted.status, 201, "{submitted:?}");
    let id = submitted.text("id");
    assert_eq!(yard.ask(&submit).await.text("id"), id, "the same call gives the same build");
    Submitted { id, source }
}

pub async fn build(yard: &mut Yard, Submitted { id, source }: Submitted) {
    let result = yard.bytes(2);
    let mut builder = Builder::register(yard).await;
    builder.wait_for(yard, &id).await;
    builder.begin(yard, &id, &source).await;
    let pieces = upload(yard, &result).await;
    let path = format!("/api/builds/{id}/artifact?name=app.ipa&upload={pieces}");
    for _ in 0..2 {
        let finished = yard.ask(&builder.with_token(Request::post(&path))).await;
        assert_eq!(finished.status, 200, "{finished:?}");
    }
    assert_downloads(yard, &id, &source, &result).await;
    yard.expect(id, vec![file("source", &source), file("result", &result)]);
}
