//! One keep-alive connection that sends ready-made requests.
//!
//! The load shares the machine with what it measures, so it must cost next to nothing: no pool, no header map, one
//! buffer for all answers. It understands what Baton's server sends, and no more of HTTP than that.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};

use baton::{Client, ClientError, Connect, Dialer, Stream, Tls};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Room for an answer to begin with; more is made when the server says how long it is.
const BUFFER_BYTES: usize = 16 << 10;
/// Longest head of an answer.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// A server to be measured.
#[derive(Clone, Debug)]
pub struct Target {
    /// Host and port.
    pub address: String,
    /// A key that may do everything.
    pub api_key: String,
    /// Opens connections.
    dialer: Dialer,
    tls: Option<Tls>,
    /// Where a server that was started here says which certificate it shows.
    pin_file: Option<PathBuf>,
}

impl Target {
    /// The server at this address, which is believed as this says if it speaks TLS.
    pub fn new(url: &str, api_key: &str, tls: Tls) -> Result<Target, ClientError> {
        let url = url.trim_end_matches('/');
        let dialer = Dialer::new(url, &tls)?;
        let tls = url.starts_with("https://").then_some(tls);
        let address = dialer.address().to_owned();
        Ok(Target { address, api_key: api_key.to_owned(), dialer, tls, pin_file: None })
    }

    /// As [`Target::new`], for a server that was started here, with its data in this directory.
    pub fn started(url: &str, api_key: &str, data: &Path) -> Result<Target, ClientError> {
        let path = data.join(baton_server::tls::PIN_FILE);
        let target = Target::new(url, api_key, Tls::new().pin_file(&path))?;
        Ok(Target { pin_file: target.tls.is_some().then_some(path), ..target })
    }

    /// Where a server that was started here says which certificate it shows.
    pub fn pin_file(&self) -> Option<&Path> {
        self.pin_file.as_deref()
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.tls.is_some() { "https" } else { "http" }, self.address)
    }

    /// How it is believed.
    pub fn tls(&self) -> Tls {
        self.tls.clone().unwrap_or_default()
    }

    /// A client of it, with this key.
    pub fn client_with(&self, api_key: &str) -> Result<Client, ClientError> {
        Client::new_with_tls(&self.url(), api_key, &self.tls())
    }

    /// A client of it.
    pub fn client(&self) -> Result<Client, ClientError> {
        self.client_with(&self.api_key)
    }

    /// A client of it in the making.
    pub fn connected(&self) -> Connect {
        Client::connect(self.url()).api_key(&self.api_key).tls(self.tls())
    }

    /// A request as it goes over the wire.
    pub fn request(&self, method: &str, path: &str, body: &str) -> Vec<u8> {
        let Target { address, api_key, .. } = self;
        let length = body.len();
        format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nx-api-key: {api_key}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }

    /// Opens a connection.
    pub async fn connect(&self) -> io::Result<Wire> {
        let stream = self.dialer.dial().await?;
        Ok(Wire { stream, buffer: Vec::with_capacity(BUFFER_BYTES) })
    }

    /// Sends one request on a connection of its own and returns the body of the answer.
    pub async fn once(&self, method: &str, path: &str, body: &str) -> io::Result<Vec<u8>> {
        let mut wire = self.connect().await?;
        Ok(wire.call(&self.request(method, path, body)).await?.to_vec())
    }
}

/// One connection.
#[derive(Debug)]
pub struct Wire {
    stream: Stream,
    buffer: Vec<u8>,
}

impl Wire {
    /// Sends a request and returns the body of its answer. An answer that is no success is an error.
    pub async fn call(&mut self, request: &[u8]) -> io::Result<&[u8]> {
        let (status, body) = self.answer(request).await?;
        let body = &self.buffer[body];
        match status {
            200..=299 => Ok(body),
            _ => Err(io::Error::other(format!("the server answered {status}: {}", String::from_utf8_lossy(body)))),
        }
    }

    /// Sends a request; returns the status of its answer, and where its body is in the buffer.
    async fn answer(&mut self, request: &[u8]) -> io::Result<(u16, Range<usize>)> {
        self.stream.write_all(request).await?;
        self.stream.flush().await?;
        self.buffer.clear();
        let (status, body) = loop {
            self.read().await?;
            if let Some(head) = head(&self.buffer)? {
                break (head.status, head.body..head.body + head.length);
            }
        };
        self.buffer.reserve(body.end.saturating_sub(self.buffer.len()));
        while self.buffer.len() < body.end {
            self.read().await?;
        }
        Ok((status, body))
    }

    /// Sends a request and returns status, head and body of its answer, whatever it is.
    pub async fn exchange(&mut self, request: &[u8]) -> io::Result<(u16, String, &[u8])> {
        let (status, body) = self.answer(request).await?;
        let head = String::from_utf8_lossy(&self.buffer[..body.start]).into_owned();
        Ok((status, head, &self.buffer[body]))
    }

    /// Sends a request whose answer does not end, and reads its head.
    pub async fn follow(&mut self, request: &[u8]) -> io::Result<()> {
        self.stream.write_all(request).await?;
        self.stream.flush().await?;
        self.buffer.clear();
        while !self.buffer.windows(4).any(|four| four == b"\r\n\r\n") {
            self.read().await?;
        }
        if !self.buffer.starts_with(b"HTTP/1.1 200 ") {
            return Err(io::Error::other(format!("it was refused: {}", String::from_utf8_lossy(&self.buffer))));
        }
        Ok(())
    }

    /// Reads what is followed for as long as it goes on, and forgets it.
    pub async fn read_on(mut self) -> io::Result<()> {
        loop {
            self.buffer.clear();
            self.read().await?;
        }
    }

    async fn read(&mut self) -> io::Result<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

struct Head {
    status: u16,
    /// Where the body begins.
    body: usize,
    length: usize,
}

/// Reads the head of an answer, if all of it is there.
fn head(bytes: &[u8]) -> io::Result<Option<Head>> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return if bytes.len() > HEAD_BYTES_MAX { Err(foreign()) } else { Ok(None) };
    };
    let text = std::str::from_utf8(&bytes[..end]).map_err(|_| foreign())?;
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).ok_or_else(foreign)?;
    // This one has no body, and says nothing of its length.
    if status == 204 {
        return Ok(Some(Head { status, body: end + 4, length: 0 }));
    }
    let length = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse().ok())
        .ok_or_else(foreign)?;
    Ok(Some(Head { status, body: end + 4, length }))
}

fn foreign() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "this is not the answer of a Baton server")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_when_it_is_whole() {
        let bytes = b"HTTP/1.1 201 Created\r\nContent-Length: 3\r\ndate: x\r\n\r\nabc";
        let head_of_answer = head(bytes).unwrap().unwrap();
        assert_eq!((head_of_answer.status, head_of_answer.length), (201, 3));
        assert_eq!(&bytes[head_of_answer.body..], b"abc");
        assert!(head(&bytes[..30]).unwrap().is_none());
        assert!(head(b"HTTP/1.1 200 OK\r\n\r\n").is_err(), "without a length nobody knows where the answer ends");
        assert!(head(b"SSH-2.0\r\n\r\n").is_err());
        assert_eq!(head(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap().unwrap().length, 0);
    }
}
