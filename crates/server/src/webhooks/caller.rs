//! The client that calls receivers. It connects to addresses that were checked and to no others: the host is looked up once
//! for each call, in the client's own resolver, which lets nothing through that may not be called.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use baton_core::Millis;
use baton_core::webhooks::{AllowedTargets, Answer};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue};
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::message;
use crate::Error;
use crate::settings::LiveSettings;

/// Longest URL.
const URL_BYTES_MAX: usize = 2_048;
/// Most of an answer that is read.
const ANSWER_BYTES_MAX: usize = 4_096;
/// Most of an answer that is kept.
const ANSWER_CHARS_KEPT: usize = 1_024;
/// Most addresses of a host that are tried.
const ADDRESSES_MAX: usize = 16;
/// How long a host may take to be looked up where only that is done.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// The same for a host that is private and for one that is not there: it must not tell them apart.
const NOT_PUBLIC: &str = "names a host that has no public address now. One in a private network has to be allowed by name, \
     with the server's setting webhook_allow";

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// Looks up hosts.
#[async_trait]
pub trait HostResolver: Send + Sync + fmt::Debug {
    /// The addresses of a host.
    async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// Looks up hosts as this machine does.
#[derive(Debug)]
pub struct SystemResolver;

#[async_trait]
impl HostResolver for SystemResolver {
    async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// Why a host is not called. Says nothing of its addresses.
#[derive(Debug)]
struct NotPublic;

impl fmt::Display for NotPublic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the URL {NOT_PUBLIC}")
    }
}

impl std::error::Error for NotPublic {}

/// Lets addresses through that may be called.
#[derive(Clone, Debug)]
struct GuardedResolver {
    resolver: Arc<dyn HostResolver>,
    live: Arc<LiveSettings>,
}

impl GuardedResolver {
    fn allowed(&self) -> AllowedTargets {
        // What is set was checked; a list that cannot be read allows nothing.
        AllowedTargets::parse(&self.live.get().webhook_allow).unwrap_or_default()
    }

    /// The addresses of a host, if all of them may be called.
    async fn checked(&self, host: &str) -> Result<Vec<IpAddr>, NotPublic> {
        let found = self.resolver.addresses(host).await.map_err(|_| NotPublic)?;
        let may = !found.is_empty() && self.allowed().may_call(host, &found);
        if may { Ok(found.into_iter().take(ADDRESSES_MAX).collect()) } else { Err(NotPublic) }
    }
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let own = self.clone();
        Box::pin(async move {
            let found = own.checked(name.as_str()).await?;
            // The client puts the port of the URL in place of none.
            Ok(Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0))) as Addrs)
        })
    }
}

/// A call that is ready to be made.
pub(super) struct Call<'a> {
    pub(super) url: &'a str,
    pub(super) id: String,
    pub(super) timestamp_s: i64,
    pub(super) signatures: String,
    pub(super) body: Bytes,
    pub(super) timeout: Duration,
}

/// What came back.
pub(super) struct Called {
    pub(super) answer: Answer,
    pub(super) error: Option<String>,
    pub(super) response: Option<String>,
}

impl Called {
    pub(super) fn silent(why: impl Into<String>) -> Called {
        Called { answer: Answer::Silence, error: Some(why.into()), response: None }
    }
}

/// The client.
#[derive(Debug)]
pub(super) struct Caller {
    client: reqwest::Client,
    guard: GuardedResolver,
}

impl Caller {
    pub(super) fn new(resolver: Arc<dyn HostResolver>, live: Arc<LiveSettings>) -> Result<Caller, Error> {
        // Without one the client panics. Another part of the program may have been first, which is just as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let guard = GuardedResolver { resolver, live };
        let client = reqwest::Client::builder()
            .user_agent(concat!("baton/", env!("CARGO_PKG_VERSION")))
            // A receiver must not send the call on to where it would have been refused.
            .redirect(reqwest::redirect::Policy::none())
            // A proxy would look up the host again, and connect to whatever it finds.
            .no_proxy()
            .dns_resolver(Arc::new(guard.clone()))
            // Each call is checked by what holds now, not by what held when a connection was made.
            .pool_max_idle_per_host(0)
            .build()
            .map_err(|error| {
                tracing::error!(%error, "the client of webhooks cannot be made");
                Error::Internal
            })?;
        Ok(Caller { client, guard })
    }

    /// The URL, if it may be called as far as it can be told without looking up its host.
    fn read(&self, url: &str) -> Result<Url, String> {
        if url.len() > URL_BYTES_MAX {
            return Err(format!("must have at most {URL_BYTES_MAX} bytes"));
        }
        let parsed = Url::parse(url).map_err(|error| format!("is no URL: {error}"))?;
        if !matches!(parsed.scheme(), "https" | "http") {
            return Err("must begin with https://".into());
        }
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(
                "must have no user and no password: deliveries are signed, which is how a receiver knows them".into()
            );
        }
        if parsed.fragment().is_some() {
            return Err("must have no fragment (#): it is never sent".into());
        }
        let host = parsed.host_str().ok_or("must name a host")?;
        let allowed = self.guard.allowed();
        if parsed.scheme() == "http" && !allowed.names(host) {
            return Err(
                "must begin with https://; http is for hosts that the server's setting webhook_allow names".into()
            );
        }
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        if literal.is_ok_and(|address| !allowed.may_call(host, &[address])) {
            return Err(NOT_PUBLIC.into());
        }
        Ok(parsed)
    }

    /// Says why a URL would not be called now.
    pub(super) async fn check(&self, url: &str) -> Result<(), String> {
        let url = self.read(url)?;
        let host = url.host_str().unwrap_or_default();
        if host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok() {
            return Ok(());
        }
        let checked = tokio::time::timeout(LOOKUP_TIMEOUT, self.guard.checked(host)).await;
        checked.is_ok_and(|checked| checked.is_ok()).then_some(()).ok_or_else(|| NOT_PUBLIC.into())
    }

    /// Calls a receiver, once.
    pub(super) async fn call(&self, call: Call<'_>) -> Called {
        let url = match self.read(call.url) {
            Ok(url) => url,
            Err(why) => return Called::silent(format!("the URL {why}")),
        };
        let timeout = call.timeout;
        let called = tokio::time::timeout(timeout, self.send(url, call)).await;
        called.unwrap_or_else(|_| Called::silent(format!("no answer within {} ms", timeout.as_millis())))
    }

    async fn send(&self, url: Url, call: Call<'_>) -> Called {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(message::CONTENT_TYPE));
        let own = [(ID, call.id), (TIMESTAMP, call.timestamp_s.to_string()), (SIGNATURE, call.signatures)];
        for (name, value) in own {
            let Ok(value) = HeaderValue::from_str(&value) else { return Called::silent("the call cannot be written") };
            headers.insert(name, value);
        }
        let mut response = match self.client.post(url).headers(headers).body(call.body).send().await {
            Ok(response) => response,
            Err(error) => return Called::silent(explain(&error)),
        };
        let status = response.status().as_u16();
        let answer = Answer::Status { status, retry_after_ms: retry_after_ms(response.headers()) };
        let mut said = Vec::new();
        while said.len() < ANSWER_BYTES_MAX {
            match response.chunk().await {
                Ok(Some(chunk)) => said.extend_from_slice(&chunk[..chunk.len().min(ANSWER_BYTES_MAX - said.len())]),
                Ok(None) | Err(_) => break,
            }
        }
        Called { answer, error: None, response: shown(&said) }
    }
}

/// The beginning of an answer, fit to be shown.
fn shown(said: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(said);
    let text: String =
        text.chars().take(ANSWER_CHARS_KEPT).map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect();
    (!text.is_empty()).then_some(text)
}

/// Why there was no answer. A URL may hold a secret, and addresses behind a name are nobody's business.
fn explain(error: &reqwest::Error) -> String {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(inner) = cause {
        if let Some(refused) = inner.downcast_ref::<NotPublic>() {
            return refused.to_string();
        }
        if let Some(tls) = inner.downcast_ref::<rustls::Error>() {
            return format!("no connection: {tls}");
        }
        if let Some(io) = inner.downcast_ref::<io::Error>() {
            // TLS errors come wrapped in these.
            if let Some(tls) = io.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
                return format!("no connection: {tls}");
            }
            return match error.is_connect() {
                true => format!("no connection: {}", io.kind()),
                false => format!("the connection was lost before an answer came: {}", io.kind()),
            };
        }
        cause = inner.source();
    }
    match error.is_connect() {
        true => "no connection".into(),
        false => "the connection was lost before an answer came".into(),
    }
}

/// What `Retry-After` says: seconds, or a moment.
fn retry_after_ms(headers: &HeaderMap) -> Option<Millis> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u32>() {
        return Some(Millis::from(seconds) * 1_000);
    }
    let at = httpdate::parse_http_date(text).ok()?;
    Some(at.duration_since(SystemTime::now()).map_or(0, |span| span.as_millis() as Millis))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    fn caller(allow: &str) -> Caller {
        let settings = Settings { webhook_allow: allow.into(), ..Settings::default() };
        Caller::new(Arc::new(SystemResolver), Arc::new(LiveSettings::new(settings))).unwrap()
    }

    #[test]
    fn a_url_that_may_not_be_called_says_why() {
        let caller = caller("hooks.internal, 10.1.0.0/16");
        let long = format!("https://example.com/{}", "a".repeat(URL_BYTES_MAX));
        let cases = [
            ("https://example.com/a?b=c", ""),
            ("https://example.com:8443/", ""),
            ("https://8.8.8.8/", ""),
            ("http://hooks.internal/", ""),
            ("http://10.1.2.3:8080/", ""),
            ("http://example.com/", "must begin with https://; http is for"),
            ("http://8.8.8.8/", "must begin with https://; http is for"),
            ("ftp://example.com/", "must begin with https://"),
            ("example.com", "is no URL"),
            ("https://", "is no URL"),
            ("https://user:secret@example.com/", "must have no user"),
            ("https://user@example.com/", "must have no user"),
            ("https://example.com/#a", "must have no fragment"),
            (long.as_str(), "must have at most"),
            ("https://127.0.0.1/", "names a host that has no public address"),
            ("https://2130706433/", "names a host that has no public address"),
            ("https://0x7f.1/", "names a host that has no public address"),
            ("https://[::1]/", "names a host that has no public address"),
            ("https://[::ffff:10.9.9.9]/", "names a host that has no public address"),
            ("https://169.254.169.254/latest", "names a host that has no public address"),
        ];
        for (url, expected) in cases {
            match caller.read(url) {
                Ok(_) => assert_eq!(expected, "", "{url}"),
                Err(why) => assert!(!expected.is_empty() && why.starts_with(expected), "{url}: {why}"),
            }
        }
    }

    #[test]
    fn a_receiver_says_when_it_wants_to_be_called_again() {
        let of = |text: &'static str| {
            let headers = [(RETRY_AFTER, HeaderValue::from_static(text))].into_iter().collect();
            retry_after_ms(&headers)
        };
        assert_eq!((of("7"), of(" 120 "), of("soon"), of("-1")), (Some(7_000), Some(120_000), None, None));
        assert_eq!(of("Sun, 06 Nov 1994 08:49:37 GMT"), Some(0), "that moment has passed");
        assert_eq!(retry_after_ms(&HeaderMap::new()), None);
    }

    #[test]
    fn what_a_receiver_says_is_cut_and_cleaned() {
        assert_eq!(shown(b""), None);
        assert_eq!(shown(b"a\x1b[31m\nb\xff").as_deref(), Some("a [31m\nb\u{fffd}"));
        assert_eq!(shown(&[b'x'; 4_096]).unwrap().len(), ANSWER_CHARS_KEPT);
    }
}
