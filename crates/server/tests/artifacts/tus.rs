//! The tus protocol: headers in, answers out.

use axum::response::{IntoResponse, Response};
use baton_server::artifacts::{UploadError, UploadId, UploadLimits, Uploads, tus};
use http::{HeaderMap, HeaderName, StatusCode};

use crate::on_every_place;
use crate::rig::{Rig, entropy, source};

on_every_place!(a_client_of_the_protocol_is_served, what_is_wrong_has_its_status);

const LIMITS: UploadLimits = UploadLimits { bytes_max: 1_000, expires_after_ms: 60_000 };
const ME: &str = "key-1";
const NOW: i64 = 1_445_412_480_000;
const PIECE: (&str, &str) = ("content-type", "application/offset+octet-stream");

fn headers(fields: &[(&str, &str)]) -> HeaderMap {
    let fields = [("tus-resumable", "1.0.0")].iter().chain(fields);
    fields.map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())).collect()
}

fn is(response: &Response, status: u16, fields: &[(&str, &str)]) {
    assert_eq!(response.status().as_u16(), status);
    assert_eq!(response.headers()["tus-resumable"], "1.0.0");
    for (name, value) in fields {
        assert_eq!(response.headers()[*name], *value, "{name}");
    }
}

async fn a_client_of_the_protocol_is_served(rig: Rig) {
    let uploads = Uploads::new(rig.storage.clone(), LIMITS, entropy(1));
    let extensions = ("tus-extension", "creation,termination,checksum,expiration");
    let about =
        [("tus-version", "1.0.0"), ("tus-max-size", "1000"), extensions, ("tus-checksum-algorithm", "sha1,sha256")];
    is(&tus::options(&uploads), 204, &about);

    let wanted = headers(&[("upload-length", "11"), ("upload-metadata", "filename d29ybGQuemlw,private")]);
    let location = |id: UploadId| format!("/api/v1/uploads/{id}");
    let (upload, response) = tus::create(&uploads, &wanted, ME, location, NOW).await.unwrap();
    assert_eq!(upload.metadata("filename").as_deref(), Some("world.zip"));
    assert_eq!(upload.metadata("private").as_deref(), Some(""));
    assert_eq!(upload.metadata("other"), None);
    let id = upload.id;
    let expires = ("upload-expires", "Wed, 21 Oct 2015 07:29:00 GMT");
    is(&response, 201, &[("location", &location(id)), expires]);

    let piece = headers(&[PIECE, ("upload-offset", "0"), ("upload-checksum", "sha1 qvTGHdzF6KLavt4PO0gs2a6pQ00=")]);
    let (_, response) = tus::patch(&uploads, &piece, source(b"hello"), id, ME, NOW).await.unwrap();
    is(&response, 204, &[("upload-offset", "5"), expires]);

    let (_, response) = tus::head(&uploads, &headers(&[]), id, ME, NOW).await.unwrap();
    let metadata = ("upload-metadata", "filename d29ybGQuemlw,private");
    is(&response, 200, &[("upload-offset", "5"), ("upload-length", "11"), ("cache-control", "no-store"), metadata]);

    let piece = headers(&[PIECE, ("upload-offset", "5"), ("content-length", "6")]);
    let (upload, response) = tus::patch(&uploads, &piece, source(b" world"), id, ME, NOW).await.unwrap();
    is(&response, 204, &[("upload-offset", "11")]);
    assert!(upload.is_complete());

    is(&tus::delete(&uploads, &headers(&[]), id, ME, NOW).await.unwrap(), 204, &[]);
    let gone = tus::head(&uploads, &headers(&[]), id, ME, NOW).await.unwrap_err();
    is(&gone.into_response(), 404, &[]);
}

async fn what_is_wrong_has_its_status(rig: Rig) {
    let uploads = Uploads::new(rig.storage.clone(), LIMITS, entropy(1));
    let create = async |fields: &HeaderMap| tus::create(&uploads, fields, ME, |id| id.to_string(), NOW).await;
    let status = |error: UploadError| error.into_response().status().as_u16();
    for (fields, expected) in [
        (headers(&[]), 400),
        (headers(&[("upload-length", "-1")]), 400),
        (headers(&[("upload-length", "+1")]), 400),
        (headers(&[("upload-defer-length", "1")]), 400),
        (headers(&[("upload-length", "1001")]), 413),
        (HeaderMap::new(), 412),
    ] {
        assert_eq!(status(create(&fields).await.unwrap_err()), expected, "{fields:?}");
    }
    let id = create(&headers(&[("upload-length", "10")])).await.unwrap().0.id;
    let sum = ("upload-checksum", "sha1 qvTGHdzF6KLavt4PO0gs2a6pQ00=");
    for (fields, expected) in [
        (headers(&[("upload-offset", "0")]), 415),
        (headers(&[PIECE]), 400),
        (headers(&[PIECE, ("upload-offset", "3")]), 409),
        (headers(&[PIECE, ("upload-offset", "0"), ("upload-checksum", "md5 AAAA")]), 400),
        (headers(&[PIECE, ("upload-offset", "0"), sum]), 460),
        (headers(&[PIECE, ("upload-offset", "0"), ("content-length", "11")]), 413),
    ] {
        let refused = tus::patch(&uploads, &fields, source(b"hallo"), id, ME, NOW).await.unwrap_err();
        assert_eq!(status(refused), expected, "{fields:?}");
    }
    let wrong = tus::head(&uploads, &HeaderMap::new(), id, ME, NOW).await.unwrap_err().into_response();
    is(&wrong, 412, &[("tus-version", "1.0.0")]);
    let late = tus::head(&uploads, &headers(&[]), id, ME, NOW + LIMITS.expires_after_ms).await.unwrap_err();
    assert_eq!(late.into_response().status(), StatusCode::GONE);
}
