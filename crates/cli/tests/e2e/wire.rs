//! HTTP as a program speaks it that has never heard of Baton: one request for each connection, and an answer, or none.

use std::io;
use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::site::API_KEY;

/// How long an answer may take before a client gives up.
const PATIENCE: Duration = Duration::from_secs(30);
const BOUNDARY: &str = "a-boundary-that-does-not-occur";

/// A field of a form: its name, its file name if it is a file, and what is in it.
pub type Field<'a> = (&'a str, Option<&'a str>, &'a [u8]);

/// A request that can be sent again.
#[derive(Clone, Debug)]
pub struct Request {
    head: String,
    body: Vec<u8>,
}

impl Request {
    /// With the API key of these tests.
    pub fn new(method: &str, path: &str) -> Request {
        Request::anonymous(method, path).header("x-api-key", API_KEY)
    }

    /// Without a key.
    pub fn anonymous(method: &str, path: &str) -> Request {
        let head = format!("{method} {path} HTTP/1.1\r\nhost: baton\r\nconnection: close\r\n");
        Request { head, body: Vec::new() }
    }

    pub fn get(path: &str) -> Request {
        Request::new("GET", path)
    }

    pub fn post(path: &str) -> Request {
        Request::new("POST", path)
    }

    pub fn header(mut self, name: &str, value: impl std::fmt::Display) -> Request {
        self.head.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    pub fn json(self, body: &Value) -> Request {
        self.header("content-type", "application/json").body(body.to_string().as_bytes())
    }

    pub fn form(self, fields: &[Field<'_>]) -> Request {
        let mut body = Vec::new();
        for (name, file, bytes) in fields {
            // Writing to memory cannot fail.
            let _ = write!(body, "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"{name}\"");
            if let Some(file) = file {
                let _ = write!(body, "; filename=\"{file}\"\r\ncontent-type: application/octet-stream");
            }
            body.extend_from_slice(b"\r\n\r\n");
            body.extend_from_slice(bytes);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
        self.header("content-type", format!("multipart/form-data; boundary={BOUNDARY}")).body(&body)
    }

    pub fn body(mut self, body: &[u8]) -> Request {
        self.body = body.to_vec();
        self
    }

    /// What it asks for, for people.
    pub fn name(&self) -> &str {
        self.head.split(" HTTP").next().unwrap_or_default()
    }

    /// Sends it once. An error is an answer that was lost, wholly or in part: nobody knows what the server has done.
    pub async fn send(&self, to: SocketAddr) -> io::Result<Answer> {
        tokio::time::timeout(PATIENCE, self.exchange(to)).await?
    }

    async fn exchange(&self, to: SocketAddr) -> io::Result<Answer> {
        let mut socket = TcpStream::connect(to).await?;
        let head = format!("{}content-length: {}\r\n\r\n", self.head, self.body.len());
        // A server that has refused the request before it read all of it has still answered.
        let sent = match socket.write_all(head.as_bytes()).await {
            Ok(()) => socket.write_all(&self.body).await,
            failed => failed,
        };
        let mut bytes = Vec::new();
        let read = socket.read_to_end(&mut bytes).await;
        Answer::parse(bytes, self.head.starts_with("HEAD")).ok_or_else(|| {
            let lost = || io::Error::from(io::ErrorKind::UnexpectedEof);
            sent.err().or(read.err()).unwrap_or_else(lost)
        })
    }
}

/// An answer, all of it.
#[derive(Clone)]
pub struct Answer {
    pub status: u16,
    head: String,
    pub body: Vec<u8>,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let body = &self.body[..self.body.len().min(300)];
        write!(f, "{} {}", self.status, String::from_utf8_lossy(body))
    }
}

impl Answer {
    /// The answer in these bytes, if all of it is there.
    fn parse(mut bytes: Vec<u8>, is_head: bool) -> Option<Answer> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let body = bytes.split_off(end + 4);
        let head = String::from_utf8(bytes).ok()?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let answer = Answer { status, head, body };
        let length = answer.header("content-length").map_or(Some(0), |length| length.parse().ok())?;
        (is_head || answer.body.len() == length).then_some(answer)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// A text of its JSON.
    pub fn text(&self, name: &str) -> String {
        self.json()[name].as_str().unwrap_or_else(|| panic!("no {name} in {self:?}")).to_owned()
    }
}

/// A sum as everybody writes it.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
