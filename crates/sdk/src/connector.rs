//! How connections are opened: TCP, and TLS over it where the address says so. HTTP and gRPC share it.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower::Service;

use crate::{ClientError, Tls};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What is spoken over connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// Opens connections to one server.
#[derive(Clone)]
pub(crate) struct Connector {
    tcp: HttpConnector,
    tls: Option<Arc<ClientConfig>>,
    refused: Refused,
}

/// Why the server has turned the last connection away. With TLS 1.3 it does so after the client is
/// done with the handshake, and what reads the connection may not be what waits for an answer.
type Refused = Arc<Mutex<Option<String>>>;

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("has_tls", &self.tls.is_some()).finish_non_exhaustive()
    }
}

impl Connector {
    /// One for the server at this address.
    pub(crate) fn new(url: &str, protocol: Protocol, tls: &Tls) -> Result<Connector, ClientError> {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.enforce_http(false);
        let name: &[u8] = match protocol {
            Protocol::Http1 => b"http/1.1",
            Protocol::Http2 => b"h2",
        };
        let tls = url.starts_with("https://").then(|| tls.config(name)).transpose()?;
        Ok(Connector { tcp, tls, refused: Refused::default() })
    }
}

impl Connector {
    /// Why the server has turned the last connection away, if it has. Once.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<TokioIo<Stream>, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (tls, refused) = (self.tls.clone(), self.refused.clone());
        self.refusal();
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        let tcp = self.tcp.call(uri);
        Box::pin(async move {
            let tcp = tcp.await?.into_inner();
            let Some(config) = tls else { return Ok(TokioIo::new(Stream::Plain(tcp))) };
            let name = ServerName::try_from(host)?;
            let shaking = TlsConnector::from(config).connect(name, tcp);
            match tokio::time::timeout(HANDSHAKE_TIMEOUT, shaking).await {
                Ok(shaken) => Ok(TokioIo::new(Stream::Tls(Box::new(shaken?), refused))),
                Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the TLS handshake took too long").into()),
            }
        })
    }
}

/// Opens bare connections to a server, for tools that measure and look.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Dialer {
    address: Arc<str>,
    connector: Connector,
    uri: Uri,
}

impl Dialer {
    /// One for HTTP/1.1 to the server at this address.
    pub fn new(url: &str, tls: &Tls) -> Result<Dialer, ClientError> {
        let wrong = || ClientError::Invalid(format!("{url:?} is not a server's address"));
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let address = uri.authority().ok_or_else(wrong)?.as_str().into();
        Ok(Dialer { address, connector: Connector::new(url, Protocol::Http1, tls)?, uri })
    }

    /// Host and port.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Opens a connection.
    pub async fn dial(&self) -> io::Result<Stream> {
        let opened = self.connector.clone().call(self.uri.clone()).await;
        opened.map(TokioIo::into_inner).map_err(io::Error::other)
    }
}

/// A connection.
#[doc(hidden)]
#[derive(Debug)]
pub enum Stream {
    /// As it comes.
    Plain(TcpStream),
    /// Encrypted.
    Tls(Box<TlsStream<TcpStream>>, Arc<Mutex<Option<String>>>),
}

impl Stream {
    /// The certificate that the server has shown.
    pub fn certificate(&self) -> Option<Vec<u8>> {
        match self {
            Stream::Plain(_) => None,
            Stream::Tls(tls, _) => Some(tls.get_ref().1.peer_certificates()?.first()?.to_vec()),
        }
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        match self {
            Stream::Plain(tcp) => tcp.connected(),
            Stream::Tls(tls, _) => tls.get_ref().0.connected(),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_read(cx, buffer),
            Stream::Tls(tls, refused) => {
                let outcome = Pin::new(tls).poll_read(cx, buffer);
                if let Poll::Ready(Err(error)) = &outcome
                    && let Some(why) = crate::tls::refusal(error)
                {
                    *refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
                }
                outcome
            }
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Stream::Tls(tls, _) => Pin::new(tls).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, slices),
            Stream::Tls(tls, _) => Pin::new(tls).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Plain(tcp) => tcp.is_write_vectored(),
            Stream::Tls(tls, _) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Stream::Tls(tls, _) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Stream::Tls(tls, _) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}
