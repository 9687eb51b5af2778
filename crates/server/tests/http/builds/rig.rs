//! Submitters and builders that speak plain HTTP, as programs do that have never heard of Baton.

use std::io::Write;

use baton::proto::API_KEY_HEADER;
use serde_json::{Value, json};

use crate::harness::{Answer, KEY, Server};

pub const BOUNDARY: &str = "a-boundary-that-does-not-occur";

/// A part of a multipart body: its name, its file name if it is a file, and what is in it.
pub type Part<'a> = (&'a str, Option<&'a str>, &'a [u8]);

pub fn form(parts: &[Part<'_>]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, file, bytes) in parts {
        write!(body, "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"{name}\"").unwrap();
        if let Some(file) = file {
            write!(body, "; filename=\"{file}\"\r\ncontent-type: application/octet-stream").unwrap();
        }
        body.extend_from_slice(b"\r\n\r\n");
        body.extend_from_slice(bytes);
        body.extend_from_slice(b"\r\n");
    }
    write!(body, "--{BOUNDARY}--\r\n").unwrap();
    body
}

pub const SOURCE: &[u8] = b"PK\x03\x04 not looked into by the server";

impl Server {
    pub async fn post_form(&self, path: &str, headers: &[(&str, &str)], parts: &[Part<'_>]) -> Answer {
        self.post_bare_form(path, &[&[(API_KEY_HEADER, KEY)], headers].concat(), parts).await
    }

    /// As `post_form`, without the key.
    pub async fn post_bare_form(&self, path: &str, headers: &[(&str, &str)], parts: &[Part<'_>]) -> Answer {
        let mut request = self.request("POST", path);
        request = request.header("content-type", format!("multipart/form-data; boundary={BOUNDARY}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request, form(parts)).await
    }

    pub async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.with_headers("GET", path, headers, "").await
    }

    pub async fn post_with(&self, path: &str, headers: &[(&str, &str)], body: Value) -> Answer {
        self.with_headers("POST", path, headers, &body.to_string()).await
    }

    pub async fn with_headers(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut request = self.request(method, path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request, body.to_owned()).await
    }

    /// Submits a build for iOS; returns its id and its token.
    pub async fn submit_build(&self) -> (String, String) {
        self.submit_build_with(&[]).await
    }

    pub async fn submit_build_with(&self, more: &[Part<'_>]) -> (String, String) {
        let mut parts: Vec<Part<'_>> = vec![("platform", None, b"ios"), ("source", Some("app.zip"), SOURCE)];
        parts.extend_from_slice(more);
        let answer = self.post_form("/api/builds", &[], &parts).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        let build = answer.json();
        (text(&build["id"]), text(&build["access_token"]))
    }

    pub async fn builder(&self, name: &str) -> Builder {
        self.builder_for(name, 1).await
    }

    pub async fn builder_for(&self, name: &str, most: u32) -> Builder {
        let wanted = json!({"name": name, "capabilities": {"platforms": ["ios"], "maxConcurrentBuilds": most}});
        let answer = self.call("POST", "/api/workers/register", wanted.to_string()).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let registered = answer.json();
        assert_eq!(registered["status"], "registered");
        Builder { id: text(&registered["id"]), token: text(&registered["access_token"]) }
    }

    /// Polls with a token, and does not take the next one.
    pub async fn poll_with(&self, token: &str) -> Answer {
        self.get_with("/api/workers/poll", &[(API_KEY_HEADER, KEY), ("x-worker-token", token)]).await
    }

    /// A build that a new builder has.
    pub async fn held_build(&self) -> (String, Builder) {
        let (id, _) = self.submit_build().await;
        let mut builder = self.builder("holder").await;
        let job = builder.poll(self).await;
        assert_eq!(job["id"], id.as_str());
        (id, builder)
    }

    pub async fn build_status(&self, id: &str) -> String {
        text(&self.call("GET", &format!("/api/builds/{id}"), "").await.json()["status"])
    }
}

/// A builder and its newest token.
pub struct Builder {
    pub id: String,
    pub token: String,
}

impl Builder {
    /// Polls; the job, or null.
    pub async fn poll(&mut self, server: &Server) -> Value {
        let answer = server.poll_with(&self.token).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let polled = answer.json();
        self.token = text(&polled["access_token"]);
        assert!(polled["queue"]["pending"].is_u64() && polled["poll_after_ms"].is_u64(), "{polled}");
        polled["job"].clone()
    }

    pub fn headers(&self) -> [(&'static str, &str); 2] {
        [(API_KEY_HEADER, KEY), ("x-worker-token", &self.token)]
    }

    /// Ends a build with a file.
    pub async fn upload(&self, server: &Server, build: &str, result: &[u8]) -> Answer {
        let parts: [Part<'_>; 4] = [
            ("build_id", None, build.as_bytes()),
            ("worker_id", None, self.id.as_bytes()),
            ("success", None, b"true"),
            ("result", Some("app.ipa"), result),
        ];
        server.post_form("/api/workers/upload", &[("x-worker-token", &self.token)], &parts).await
    }
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

impl Server {
    /// Names of all files in the storage, which is a directory here.
    pub fn stored_files(&self) -> Vec<String> {
        let root = std::path::PathBuf::from(self.settings.storage_url.as_deref().expect("tests name a directory"));
        let (mut open, mut names) = (vec![root.clone()], Vec::new());
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
                match entry.file_type().unwrap().is_dir() {
                    true => open.push(entry.path()),
                    false => names.push(entry.path().strip_prefix(&root).unwrap().to_string_lossy().into_owned()),
                }
            }
        }
        names.sort_unstable();
        names.into_iter().filter(|name| name.starts_with("builds/")).collect()
    }

    /// Lets a loop do its work now.
    pub async fn collect(&self) {
        baton_server::collect(&self.app).await.unwrap();
    }
}
