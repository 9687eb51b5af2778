//! Calls of the collector.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use prost::Message;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};
use tower::Service;

use crate::proto::collector::trace::v1::trace_service_client::TraceServiceClient;
use crate::proto::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use crate::{Config, ConfigError, Protocol};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest answer that is read.
const ANSWER_BYTES_MAX: usize = 64 << 10;
const AGENT: &str = concat!("baton-otlp/", env!("CARGO_PKG_VERSION"));

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a batch was not taken.
#[derive(Debug)]
pub(crate) struct Refused {
    /// What the collector said.
    pub(crate) why: String,
    /// It may take it later.
    pub(crate) is_for_now: bool,
    /// When, if it said so.
    pub(crate) retry_after: Option<Duration>,
}

/// Spans that the collector did not want, and why.
pub(crate) type Rejected = Option<(i64, String)>;

/// Calls one collector.
#[derive(Debug)]
pub(crate) enum Transport {
    Http(Box<Client<Connector, Full<Bytes>>>),
    Grpc(Box<TraceServiceClient<Client<Connector, tonic::body::Body>>>),
}

impl Transport {
    pub(crate) fn new(config: &Config) -> Result<Transport, ConfigError> {
        let connector = Connector::new(config)?;
        let mut builder = Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_max_idle_per_host(1);
        Ok(match config.protocol {
            Protocol::Http => Transport::Http(Box::new(builder.build(connector))),
            Protocol::Grpc => {
                let client = builder.http2_only(true).build(connector);
                Transport::Grpc(Box::new(TraceServiceClient::with_origin(client, config.endpoint.clone())))
            }
        })
    }

    /// Sends a batch once.
    pub(crate) async fn send(
        &mut self,
        config: &Config,
        batch: &ExportTraceServiceRequest,
    ) -> Result<Rejected, Refused> {
        let sent = async {
            match self {
                Transport::Http(client) => post(client, config, batch).await,
                Transport::Grpc(client) => call(client, config, batch).await,
            }
        };
        let late = |_| Refused::for_now(format!("no answer within {} ms", config.timeout.as_millis()));
        let answer = tokio::time::timeout(config.timeout, sent).await.map_err(late)??;
        let partial = answer.partial_success.filter(|partial| partial.rejected_spans > 0);
        Ok(partial.map(|partial| (partial.rejected_spans, partial.error_message)))
    }
}

impl Refused {
    fn for_now(why: String) -> Refused {
        Refused { why, is_for_now: true, retry_after: None }
    }
}

async fn post(
    client: &Client<Connector, Full<Bytes>>,
    config: &Config,
    batch: &ExportTraceServiceRequest,
) -> Result<ExportTraceServiceResponse, Refused> {
    let mut request = Request::builder().method(Method::POST).uri(config.endpoint.clone());
    request = request.header(CONTENT_TYPE, "application/x-protobuf").header(USER_AGENT, AGENT);
    if let Some(headers) = request.headers_mut() {
        headers.extend(config.headers.clone());
    }
    let request = request.body(Full::new(batch.encode_to_vec().into()));
    let request = request.map_err(|error| Refused { why: error.to_string(), is_for_now: false, retry_after: None })?;
    let answer = client.request(request).await.map_err(|error| Refused::for_now(said(&error)))?;
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map(http_body_util::Collected::to_bytes);
    match head.status {
        // One that cannot be read was taken all the same.
        status if status.is_success() => {
            Ok(body.ok().and_then(|body| ExportTraceServiceResponse::decode(body).ok()).unwrap_or_default())
        }
        status => {
            let wait = head.headers.get(RETRY_AFTER).and_then(|wait| wait.to_str().ok()?.parse().ok());
            Err(Refused {
                why: format!("the collector answered {status}"),
                is_for_now: matches!(
                    status,
                    StatusCode::TOO_MANY_REQUESTS
                        | StatusCode::BAD_GATEWAY
                        | StatusCode::SERVICE_UNAVAILABLE
                        | StatusCode::GATEWAY_TIMEOUT
                ),
                retry_after: wait.map(Duration::from_secs),
            })
        }
    }
}

async fn call(
    client: &mut TraceServiceClient<Client<Connector, tonic::body::Body>>,
    config: &Config,
    batch: &ExportTraceServiceRequest,
) -> Result<ExportTraceServiceResponse, Refused> {
    let metadata = MetadataMap::from_headers(config.headers.clone());
    let request = tonic::Request::from_parts(metadata, tonic::Extensions::default(), batch.clone());
    client.export(request).await.map(tonic::Response::into_inner).map_err(|status| refused(&status))
}

fn refused(status: &Status) -> Refused {
    let is_for_now = match status.code() {
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unavailable
        | Code::DataLoss
        | Code::ResourceExhausted => true,
        // A connection that failed has no code of its own.
        Code::Unknown => std::error::Error::source(status).is_some(),
        Code::Ok
        | Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::Unimplemented
        | Code::Internal
        | Code::Unauthenticated => false,
    };
    Refused { why: said(status), is_for_now, retry_after: None }
}

/// An error with what caused it.
fn said(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// Opens connections to the collector.
#[derive(Clone)]
pub(crate) struct Connector {
    tcp: HttpConnector,
    tls: Option<Arc<ClientConfig>>,
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").field("has_tls", &self.tls.is_some()).finish_non_exhaustive()
    }
}

impl Connector {
    fn new(config: &Config) -> Result<Connector, ConfigError> {
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.enforce_http(false);
        let tls = (config.endpoint.scheme_str() == Some("https")).then(|| trust(config)).transpose()?;
        Ok(Connector { tcp, tls: tls.map(Arc::new) })
    }
}

/// Believes this system's authorities, or the one in the file.
fn trust(config: &Config) -> Result<ClientConfig, ConfigError> {
    let mut roots = RootCertStore::empty();
    match &config.certificate {
        Some(path) => {
            let wrong = |why: String| ConfigError::of(format!("{}: {why}", path.display()));
            for certificate in CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))? {
                let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
                roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ConfigError::of(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = match config.protocol {
        Protocol::Grpc => vec![b"h2".to_vec()],
        Protocol::Http => vec![b"http/1.1".to_vec()],
    };
    Ok(tls)
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<TokioIo<Stream>, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let tls = self.tls.clone();
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
        let tcp = self.tcp.call(uri);
        Box::pin(async move {
            let tcp = tcp.await?.into_inner();
            let Some(config) = tls else { return Ok(TokioIo::new(Stream::Plain(tcp))) };
            let name = ServerName::try_from(host)?;
            // The timeout of the whole call is that of the handshake, too.
            let stream = TlsConnector::from(config).connect(name, tcp).await?;
            Ok(TokioIo::new(Stream::Tls(Box::new(stream))))
        })
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        match self {
            Stream::Plain(tcp) => tcp.connected(),
            Stream::Tls(tls) => tls.get_ref().0.connected(),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_read(cx, buffer),
            Stream::Tls(tls) => Pin::new(tls).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Stream::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}
