//! Where spans go, and what is said of whoever sends them.

use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use percent_encoding::percent_decode_str;

/// The port that collectors listen on for gRPC.
const GRPC_PORT: u16 = 4317;
/// Where HTTP takes traces, below the endpoint.
const TRACES_PATH: &str = "v1/traces";
/// How long a call may take, unless told otherwise.
const TIMEOUT_MS: u64 = 10_000;
/// Most attributes of a resource that are taken from the environment.
const RESOURCE_ATTRIBUTES_MAX: usize = 64;

/// What is spoken with the collector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// OTLP/gRPC.
    Grpc,
    /// OTLP/HTTP with protobuf.
    Http,
}

impl Protocol {
    /// Reads the word of a setting or of the environment.
    pub fn parse(word: &str) -> Result<Protocol, ConfigError> {
        match word {
            "grpc" => Ok(Protocol::Grpc),
            "http" | "http/protobuf" => Ok(Protocol::Http),
            other => Err(ConfigError(format!("the protocol must be grpc or http, not {other:?}"))),
        }
    }

    /// The protocol that collectors speak there: gRPC on port 4317, otherwise HTTP.
    fn usual(endpoint: &Uri) -> Protocol {
        if endpoint.port_u16() == Some(GRPC_PORT) { Protocol::Grpc } else { Protocol::Http }
    }
}

/// Why nothing can be sent.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

impl ConfigError {
    pub(crate) fn of(why: String) -> ConfigError {
        ConfigError(why)
    }
}

/// What OpenTelemetry's variables of the environment say.
#[derive(Clone, PartialEq, Default)]
pub struct Environment {
    /// `OTEL_SDK_DISABLED`.
    pub is_disabled: bool,
    /// `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub endpoint: Option<String>,
    /// `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, which is taken as it is.
    pub traces_endpoint: Option<String>,
    /// `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL` or `OTEL_EXPORTER_OTLP_PROTOCOL`.
    pub protocol: Option<String>,
    /// `OTEL_EXPORTER_OTLP_TRACES_HEADERS` or `OTEL_EXPORTER_OTLP_HEADERS`: often secrets.
    pub headers: Option<String>,
    /// `OTEL_EXPORTER_OTLP_TRACES_TIMEOUT` or `OTEL_EXPORTER_OTLP_TIMEOUT`, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// `OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE` or `OTEL_EXPORTER_OTLP_CERTIFICATE`: who vouches for the collector (PEM).
    pub certificate: Option<PathBuf>,
    /// `OTEL_SERVICE_NAME`.
    pub service_name: Option<String>,
    /// `OTEL_RESOURCE_ATTRIBUTES`.
    pub resource_attributes: Option<String>,
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Environment {
    /// Reads the variables. Empty ones say nothing.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Environment {
        let said = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let exporter = |name: &str| {
            said(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}")).or_else(|| said(&format!("OTEL_EXPORTER_OTLP_{name}")))
        };
        Environment {
            is_disabled: said("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")),
            endpoint: said("OTEL_EXPORTER_OTLP_ENDPOINT"),
            traces_endpoint: said("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
            protocol: exporter("PROTOCOL"),
            headers: exporter("HEADERS"),
            timeout_ms: exporter("TIMEOUT").and_then(|value| value.trim().parse().ok()),
            certificate: exporter("CERTIFICATE").map(PathBuf::from),
            service_name: said("OTEL_SERVICE_NAME"),
            resource_attributes: said("OTEL_RESOURCE_ATTRIBUTES"),
        }
    }

    /// That of this process.
    pub fn of_process() -> Environment {
        Environment::read(|name| std::env::var(name).ok())
    }
}

/// Where spans go.
#[derive(Clone)]
pub struct Config {
    /// The address that is called.
    pub(crate) endpoint: Uri,
    pub(crate) protocol: Protocol,
    pub(crate) headers: HeaderMap,
    pub(crate) timeout: Duration,
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) resource: Vec<(String, String)>,
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Config {
    /// What these settings say, and the environment where they say nothing. `None` when tracing is off.
    pub fn new(
        endpoint: Option<&str>,
        protocol: Option<&str>,
        headers: Option<&str>,
        timeout_ms: Option<u64>,
        environment: &Environment,
    ) -> Result<Option<Config>, ConfigError> {
        let said = endpoint.or(environment.traces_endpoint.as_deref()).or(environment.endpoint.as_deref());
        let Some(said) = said.filter(|_| !environment.is_disabled) else { return Ok(None) };
        let wrong = |why: String| ConfigError(format!("{said:?} is no address of a collector: {why}"));
        let uri: Uri = said.parse().map_err(|error| wrong(format!("{error}")))?;
        if uri.host().is_none() || !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(wrong("it has to begin with http:// or https:// and a host".into()));
        }
        let protocol = protocol.or(environment.protocol.as_deref()).map(Protocol::parse).transpose()?;
        let protocol = protocol.unwrap_or_else(|| Protocol::usual(&uri));
        let is_whole = endpoint.is_none() && environment.traces_endpoint.is_some();
        let endpoint = match protocol {
            Protocol::Http if !is_whole => format!("{}/{TRACES_PATH}", said.trim_end_matches('/'))
                .parse()
                .map_err(|error| wrong(format!("{error}")))?,
            Protocol::Http | Protocol::Grpc => uri,
        };
        Ok(Some(Config {
            endpoint,
            protocol,
            headers: read_headers(headers.or(environment.headers.as_deref()).unwrap_or_default())?,
            timeout: Duration::from_millis(timeout_ms.or(environment.timeout_ms).unwrap_or(TIMEOUT_MS).max(1)),
            certificate: environment.certificate.clone(),
            resource: pairs(environment.resource_attributes.as_deref().unwrap_or_default())
                .take(RESOURCE_ATTRIBUTES_MAX)
                .collect(),
        }))
    }

    /// Says something of whoever sends spans, unless it was said before.
    pub fn about(mut self, name: &str, value: impl Into<String>) -> Config {
        if self.resource.iter().all(|(known, _)| known != name) {
            self.resource.push((name.to_owned(), value.into()));
        }
        self
    }

    /// Says who sends spans: the name of the environment, if there is one, otherwise this.
    pub fn service(self, environment: &Environment, name: &str, version: &str) -> Config {
        let mut named = self;
        if let Some(name) = &environment.service_name {
            named.resource.retain(|(known, _)| known != "service.name");
            named.resource.push(("service.name".into(), name.clone()));
        }
        named.about("service.name", name).about("service.version", version)
    }

    /// What is spoken with the collector.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }
}

/// Pairs as the environment has them: `key=value,key=value`, values with `%20` and the like.
fn pairs(text: &str) -> impl Iterator<Item = (String, String)> {
    text.split(',').filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
        Some((name.trim().to_owned(), value.into_owned())).filter(|(name, _)| !name.is_empty())
    })
}

fn read_headers(text: &str) -> Result<HeaderMap, ConfigError> {
    let mut headers = HeaderMap::new();
    let said = text.split(',').filter(|pair| !pair.trim().is_empty()).count();
    for (name, value) in pairs(text) {
        // The value may be a secret: it is never shown.
        let wrong = || ConfigError(format!("the header {name:?} for the collector is not one that HTTP allows"));
        let name = HeaderName::from_bytes(name.to_ascii_lowercase().as_bytes()).map_err(|_| wrong())?;
        let mut value = HeaderValue::from_str(&value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    match headers.len() == said {
        true => Ok(headers),
        false => Err(ConfigError("headers for the collector are written name=value,name=value".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(endpoint: &str, environment: &Environment) -> Config {
        Config::new(Some(endpoint), None, None, None, environment).unwrap().unwrap()
    }

    fn environment(variables: &[(&str, &str)]) -> Environment {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string());
        Environment::read(find)
    }

    #[test]
    fn it_is_off_unless_somebody_says_where() {
        let off = Config::new(None, Some("grpc"), None, None, &Environment::default()).unwrap();
        assert!(off.is_none());
        let by_environment = environment(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/")]);
        let on = Config::new(None, None, None, None, &by_environment).unwrap().unwrap();
        assert_eq!(on.endpoint, "http://collector:4318/v1/traces");
        let disabled = Environment { is_disabled: true, ..by_environment };
        assert!(Config::new(Some("http://own:4317"), None, None, None, &disabled).unwrap().is_none());
    }

    #[test]
    fn the_protocol_follows_the_port_unless_it_is_said() {
        let none = Environment::default();
        assert_eq!(config("http://c:4317", &none).protocol, Protocol::Grpc);
        assert_eq!(config("http://c:4318", &none).protocol, Protocol::Http);
        let said = environment(&[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]);
        assert_eq!(config("http://c:4318", &said).protocol, Protocol::Grpc);
        assert!(Config::new(Some("http://c"), Some("http/json"), None, None, &none).is_err());
    }

    #[test]
    fn settings_come_before_the_environment_and_traces_before_all_signals() {
        let said = environment(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:4318"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces/as/it/is"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "x=all"),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x=a%20b, y=2"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "123"),
        ]);
        let by_environment = Config::new(None, None, None, None, &said).unwrap().unwrap();
        assert_eq!(by_environment.endpoint, "http://traces/as/it/is");
        assert_eq!(by_environment.headers["x"], "a b");
        assert_eq!(by_environment.headers["y"], "2");
        assert_eq!(by_environment.timeout, Duration::from_millis(123));
        let own = Config::new(Some("http://own:4318"), None, Some("z=3"), Some(5), &said).unwrap().unwrap();
        assert_eq!((own.endpoint.to_string().as_str(), own.timeout.as_millis()), ("http://own:4318/v1/traces", 5));
        assert!(own.headers.get("x").is_none() && own.headers["z"] == "3");
    }

    #[test]
    fn a_secret_in_a_header_is_not_shown() {
        let none = Environment::default();
        for wrong in ["key=a\nsecret", "ke y=secret", "secret"] {
            let refused = Config::new(Some("http://c:4318"), None, Some(wrong), None, &none).unwrap_err();
            assert!(!refused.to_string().contains("secret"), "{refused}");
        }
        let fine = Config::new(Some("http://c:4318"), None, Some("key=secret"), None, &none).unwrap().unwrap();
        assert!(!format!("{fine:?}").contains("secret"));
    }

    #[test]
    fn the_environment_names_the_service() {
        let said = environment(&[
            ("OTEL_SERVICE_NAME", "mine"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,deployment.environment.name=test,host.name=h"),
        ]);
        let named = config("http://c:4318", &said).service(&said, "baton", "1").about("host.name", "not this");
        let value =
            |name: &str| named.resource.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        assert_eq!(value("service.name"), Some("mine"));
        assert_eq!(value("host.name"), Some("h"));
        assert_eq!(value("deployment.environment.name"), Some("test"));
        assert_eq!(value("service.version"), Some("1"));
    }

    #[test]
    fn an_address_that_is_none_is_refused() {
        for wrong in ["", "collector", "ftp://c", "http://", "collector:4317"] {
            assert!(Config::new(Some(wrong), None, None, None, &Environment::default()).is_err(), "{wrong:?}");
        }
    }
}
