//! Files as HTTP answers.

use axum::response::Response;
use baton_server::Error;
use baton_server::artifacts::{Download, Sha256Sum};
use http::header::{CONTENT_RANGE, IF_MATCH, IF_NONE_MATCH, IF_RANGE, RANGE};
use http::{HeaderMap, HeaderName, Method, StatusCode};
use http_body_util::BodyExt;

use crate::on_every_place;
use crate::rig::{Rig, content, path};

on_every_place!(
    a_whole_file_and_its_parts,
    conditions_are_answered_without_a_body,
    head_says_what_get_would,
    what_is_gone_or_damaged_is_not_promised,
    a_download_goes_on_where_it_was_cut,
);

const SIZE: usize = 700_000;

struct Asked<'a> {
    rig: &'a Rig,
    content: &'a [u8],
}

impl Asked<'_> {
    async fn ask(&self, method: Method, fields: &[(HeaderName, String)]) -> Result<Response, Error> {
        let headers: HeaderMap = fields.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        let download = Download {
            path: &path("file"),
            size: self.content.len() as u64,
            sha256: Sha256Sum::of(self.content),
            file_name: "größe.zip",
            content_type: "application/zip",
        };
        download.answer(&self.rig.storage, &method, &headers).await
    }

    async fn get(&self, fields: &[(HeaderName, String)]) -> (StatusCode, HeaderMap, Vec<u8>) {
        let (parts, body) = self.ask(Method::GET, fields).await.unwrap().into_parts();
        (parts.status, parts.headers, body.collect().await.unwrap().to_bytes().to_vec())
    }
}

async fn a_whole_file_and_its_parts(rig: Rig) {
    let content = content(SIZE);
    rig.put(&path("file"), &content).await;
    let asked = Asked { rig: &rig, content: &content };
    let (status, headers, body) = asked.get(&[]).await;
    assert_eq!(status, StatusCode::OK);
    assert!(body == content);
    let sum = Sha256Sum::of(&content);
    for (name, value) in [
        ("accept-ranges", "bytes".to_owned()),
        ("content-length", SIZE.to_string()),
        ("content-type", "application/zip".to_owned()),
        ("etag", format!("\"{sum}\"")),
        ("repr-digest", sum.as_field()),
        ("content-disposition", "attachment; filename=\"gr__e.zip\"; filename*=UTF-8''gr%C3%B6%C3%9Fe.zip".to_owned()),
    ] {
        assert_eq!(headers[name], value, "{name}");
    }
    for (range, part) in [
        ("bytes=0-0", 0..1),
        ("bytes=300000-", 300_000..SIZE),
        ("bytes=-5", SIZE - 5..SIZE),
        ("bytes=262143-262144", 262_143..262_145),
        ("bytes=10-9999999", 10..SIZE),
    ] {
        let (status, headers, body) = asked.get(&[(RANGE, range.into())]).await;
        assert_eq!(status, StatusCode::PARTIAL_CONTENT, "{range}");
        assert!(body == content[part.clone()], "{range}");
        assert_eq!(headers[CONTENT_RANGE], format!("bytes {}-{}/{SIZE}", part.start, part.end - 1));
        assert_eq!(headers["content-length"], part.len().to_string());
    }
    let (status, headers, body) = asked.get(&[(RANGE, format!("bytes={SIZE}-"))]).await;
    assert_eq!((status, body.len()), (StatusCode::RANGE_NOT_SATISFIABLE, 0));
    assert_eq!(headers[CONTENT_RANGE], format!("bytes */{SIZE}"));
}

async fn conditions_are_answered_without_a_body(rig: Rig) {
    let content = content(SIZE);
    rig.put(&path("file"), &content).await;
    let asked = Asked { rig: &rig, content: &content };
    let (etag, other) = (format!("\"{}\"", Sha256Sum::of(&content)), "\"other\"".to_owned());
    let range = (RANGE, "bytes=0-9".to_owned());
    for (fields, status, size) in [
        (vec![(IF_NONE_MATCH, etag.clone())], StatusCode::NOT_MODIFIED, 0),
        (vec![(IF_NONE_MATCH, other.clone())], StatusCode::OK, SIZE),
        (vec![(IF_MATCH, other.clone())], StatusCode::PRECONDITION_FAILED, 0),
        (vec![(IF_MATCH, etag.clone())], StatusCode::OK, SIZE),
        (vec![(IF_RANGE, etag.clone()), range.clone()], StatusCode::PARTIAL_CONTENT, 10),
        (vec![(IF_RANGE, other), range], StatusCode::OK, SIZE),
    ] {
        let (found, headers, body) = asked.get(&fields).await;
        assert_eq!((found, body.len()), (status, size), "{fields:?}");
        assert_eq!(headers["etag"], etag);
    }
}

async fn head_says_what_get_would(rig: Rig) {
    for size in [0, SIZE] {
        let content = content(size);
        rig.put(&path("file"), &content).await;
        let asked = Asked { rig: &rig, content: &content };
        let (status, headers, body) = asked.get(&[]).await;
        let head = asked.ask(Method::HEAD, &[]).await.unwrap();
        assert_eq!((head.status(), head.headers()), (status, &headers));
        assert!(body == content);
        assert_eq!(head.into_body().collect().await.unwrap().to_bytes().len(), 0);
    }
}

async fn what_is_gone_or_damaged_is_not_promised(rig: Rig) {
    let content = content(SIZE);
    let asked = Asked { rig: &rig, content: &content };
    for method in [Method::GET, Method::HEAD] {
        assert!(matches!(asked.ask(method, &[]).await, Err(Error::NotFound { .. })));
    }
    rig.put(&path("file"), &content[1..]).await;
    for method in [Method::GET, Method::HEAD] {
        assert!(matches!(asked.ask(method, &[]).await, Err(Error::Internal)));
    }
}

async fn a_download_goes_on_where_it_was_cut(rig: Rig) {
    let content = content(SIZE);
    rig.put(&path("file"), &content).await;
    let asked = Asked { rig: &rig, content: &content };
    let etag = format!("\"{}\"", Sha256Sum::of(&content));
    let mut first = asked.ask(Method::GET, &[]).await.unwrap().into_body();
    let mut got = first.frame().await.unwrap().unwrap().into_data().unwrap().to_vec();
    drop(first);
    assert!(got.len() < SIZE, "the file comes in more than one piece");
    let (_, _, rest) = asked.get(&[(RANGE, format!("bytes={}-", got.len())), (IF_RANGE, etag)]).await;
    got.extend_from_slice(&rest);
    assert!(got == content);
}
