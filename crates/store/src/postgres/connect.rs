//! New connections: each host of the URL in turn, over TLS where the URL asks for it; and in words what
//! keeps one from being made.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use deadpool::managed::{self, Metrics, RecycleError, RecycleResult};
use deadpool_postgres::ClientWrapper;
use rustls::{AlertDescription, CertificateError};
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Connection, Error, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::{Address, HostAddress};
use super::pool::CREATE_TIMEOUT;
use super::tls::TlsMode;
use crate::StoreError;

/// The oldest PostgreSQL that the statements work with.
const VERSION_MIN: u32 = 14;

/// A connection, over TLS or not.
pub(super) type AnyConnection = Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// Where connections are made to, and how.
pub(super) struct Target {
    address: Address,
    tls: MakeRustlsConnect,
}

impl Target {
    /// Reads a URL and the files it names.
    pub(super) fn read(url: &str, application_name: &str) -> Result<Target, StoreError> {
        let read = || {
            let address = Address::read(url, application_name)?;
            let tls = address.tls.connector(address.direct)?;
            Ok(Target { address, tls })
        };
        read().map_err(StoreError::Unusable)
    }

    /// Connects to the first of the hosts that can be written to.
    pub(super) async fn connect(&self) -> Result<(Client, AnyConnection), ConnectError> {
        let hosts = &self.address.hosts;
        let first = if self.address.random { RandomState::new().build_hasher().finish() as usize } else { 0 };
        // One that takes a connection and then says nothing must not keep the others from being asked.
        let patience = CREATE_TIMEOUT.mul_f64(0.9) / hosts.len() as u32;
        let mut failures = Vec::new();
        for host in (0..hosts.len()).map(|step| &hosts[first.wrapping_add(step) % hosts.len()]) {
            match self.connect_to(host, patience).await {
                Ok(connected) => return Ok(connected),
                Err(failure) => failures.push((host.name.as_str(), failure)),
            }
        }
        Err(ConnectError::of(&failures))
    }

    async fn connect_to(&self, host: &HostAddress, patience: Duration) -> Result<(Client, AnyConnection), Failure> {
        let connecting = async {
            let error = match host.config.connect(self.tls.clone()).await {
                Ok(connected) => return Ok(connected),
                Err(error) => error,
            };
            let failure = self.explain(&error, host);
            // As libpq does: TLS that does not work, or a server that does not want it, is no reason to
            // fail where it is only preferred.
            let tls_failed =
                is_handshake(&error) || error.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION);
            if self.address.mode != TlsMode::Prefer || host.is_socket || !tls_failed {
                return Err(failure);
            }
            let mut plain = host.config.clone();
            plain.ssl_mode(SslMode::Disable);
            plain.connect(self.tls.clone()).await.map_err(|error| {
                let second = self.explain(&error, host);
                Failure { text: format!("{}; without TLS: {}", failure.text, second.text), ..second }
            })
        };
        let connected = tokio::time::timeout(patience, connecting).await;
        let no_answer = || Failure::passing(format!("no answer within {} s", patience.as_secs_f32()));
        let (client, connection) = connected.map_err(|_| no_answer())??;
        match connection.parameter("server_version").and_then(too_old) {
            Some(version) => Err(Failure::lasting(format!(
                "it is PostgreSQL {version}, which is too old: {VERSION_MIN} or newer is needed"
            ))),
            None => Ok((client, connection)),
        }
    }

    /// Says in words why a host cannot be used.
    fn explain(&self, error: &Error, host: &HostAddress) -> Failure {
        if let Some(code) = error.code() {
            return refused(code, error);
        }
        let cause = std::error::Error::source(error);
        let io = cause.and_then(|cause| cause.downcast_ref::<std::io::Error>());
        if let Some(tls) = io.and_then(std::io::Error::get_ref).and_then(|inner| inner.downcast_ref::<rustls::Error>())
        {
            return Failure::lasting(self.explain_tls(tls, host));
        }
        let why = cause.map_or_else(|| error.to_string(), ToString::to_string);
        match (why.as_str(), io) {
            ("server does not support TLS", _) => Failure::lasting(
                "the server does not support TLS, and the URL asks for it: set ssl = on at the server, or, where \
                 nobody can listen, sslmode=disable in the URL"
                    .into(),
            ),
            ("database does not allow writes", _) => Failure { text: "it is a standby".into(), kind: Kind::Standby },
            ("password missing", _) => Failure::lasting(
                "the server asks for a password, and the URL has none: postgres://user:password@host/database".into(),
            ),
            (_, Some(_)) if is_handshake(error) => Failure::passing(format!("the TLS handshake was cut off: {why}")),
            (_, Some(_)) => Failure::passing(why),
            // Asks for something that this program, or that server, cannot do.
            (_, None) if ["authentication error", "invalid configuration"].contains(&error.to_string().as_str()) => {
                Failure::lasting(format!("{error}: {why}"))
            }
            (_, None) if is_handshake(error) => Failure::lasting(format!("{error}: {why}")),
            (_, None) => Failure::passing(why),
        }
    }

    fn explain_tls(&self, error: &rustls::Error, host: &HostAddress) -> String {
        let name = host.name.rsplit_once(':').map_or(host.name.as_str(), |(name, _)| name);
        let has_roots = self.address.tls.roots.is_some();
        match error {
            rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
                let trusted = if has_roots { "in sslrootcert" } else { "known to this system" };
                format!(
                    "its certificate is signed by nobody who is {trusted}: give sslrootcert=FILE with the \
                     certificate of the CA that has signed it"
                )
            }
            rustls::Error::InvalidCertificate(CertificateError::NotValidForNameContext { presented, .. }) => {
                let names: Vec<_> = presented.iter().map(|name| plain_name(name)).collect();
                let of = match names.is_empty() {
                    true => "names no host (a common name alone does not count)".to_owned(),
                    false => format!("is for {}", names.join(", ")),
                };
                format!(
                    "its certificate {of}, and not for {name}: use a name in the URL that is in the certificate, or \
                     have one made with {name} as a subjectAltName; sslmode=verify-ca does not look at names"
                )
            }
            rustls::Error::InvalidCertificate(CertificateError::NotValidForName) => {
                format!("its certificate is not for {name}: use a name in the URL that is in the certificate")
            }
            rustls::Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
                "its certificate has expired: renew it at the server, and look whether this machine's clock is right"
                    .into()
            }
            rustls::Error::InvalidCertificate(
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
            ) => "its certificate is not valid yet: look whether this machine's clock is right".into(),
            // As `openssl req -x509` makes them.
            rustls::Error::InvalidCertificate(_) if error.to_string().contains("CaUsedAsEndEntity") => {
                "its certificate has signed itself, and is not trusted here: give sslrootcert=FILE with a copy of it"
                    .into()
            }
            rustls::Error::InvalidCertificate(_) => format!(
                "its certificate is refused ({error}): have one made that a CA has signed, and give sslrootcert=FILE \
                 with that CA"
            ),
            rustls::Error::AlertReceived(
                AlertDescription::HandshakeFailure
                | AlertDescription::ProtocolVersion
                | AlertDescription::InsufficientSecurity,
            )
            | rustls::Error::PeerIncompatible(_) => {
                format!("it and this program have no kind of TLS in common ({error}): TLS 1.2 or newer is needed")
            }
            rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
                "it does not speak PostgreSQL directly over TLS: leave sslnegotiation=direct away".into()
            }
            rustls::Error::AlertReceived(alert) if self.address.tls.certificate.is_some() => format!(
                "the server refuses the client certificate ({alert:?}): sslcert must be one that a CA in the \
                 server's ssl_ca_file has signed, and must not have expired"
            ),
            rustls::Error::AlertReceived(alert) => format!(
                "the server broke off the TLS handshake ({alert:?}): if it wants a client certificate, give \
                 sslcert=FILE and sslkey=FILE"
            ),
            other => format!("TLS with it is not possible: {other}"),
        }
    }
}

/// What the server says no with.
fn refused(code: &SqlState, error: &Error) -> Failure {
    let said = error.as_db_error().map_or_else(|| error.to_string(), |said| said.message().to_owned());
    let text = format!("{said} ({})", code.code());
    let todo = match code.code() {
        "28P01" => "look at user and password in the URL; what is not a letter or a digit is percent-encoded",
        "28000" if said.contains("no encryption") => {
            "the server wants TLS: write sslmode=verify-full, or at least require"
        }
        "28000" if said.contains("client certificate") => "give sslcert=FILE and sslkey=FILE in the URL",
        "28000" => "look at the user in the URL, and at pg_hba.conf of the server",
        "3D000" => "make it with `createdb`, or correct its name in the URL",
        "42501" => "grant the user the right to connect to the database",
        // Starting, stopping, full: it may be otherwise in a moment.
        _ => return Failure::passing(text),
    };
    Failure::lasting(format!("{text}: {todo}"))
}

/// Whether it failed while TLS was being agreed on.
fn is_handshake(error: &Error) -> bool {
    error.to_string() == "error performing TLS handshake"
}

/// A name as a certificate has it: webpki says `DnsName("db.test")`.
fn plain_name(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, inner)| inner.strip_suffix(')')).unwrap_or(name);
    inner.trim_matches('"')
}

/// The version, if it is one of PostgreSQL and too old.
fn too_old(version: &str) -> Option<&str> {
    let major: u32 = version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
    (major < VERSION_MIN).then_some(version)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// It may be otherwise in a moment.
    Passing,
    /// Somebody has to change something.
    Lasting,
    /// Nothing is wrong with it.
    Standby,
}

/// Why one host cannot be used.
#[derive(Clone, Debug)]
struct Failure {
    text: String,
    kind: Kind,
}

impl Failure {
    fn passing(text: String) -> Failure {
        Failure { text, kind: Kind::Passing }
    }

    fn lasting(text: String) -> Failure {
        Failure { text, kind: Kind::Lasting }
    }
}

/// Why no connection could be made. Never holds a password.
#[derive(Clone, Debug)]
pub(super) struct ConnectError {
    text: String,
    /// True when no host will take a connection as long as nobody changes something.
    lasting: bool,
}

impl ConnectError {
    fn of(failures: &[(&str, Failure)]) -> ConnectError {
        let any = |kind: Kind| failures.iter().any(|(_, failure)| failure.kind == kind);
        let texts: Vec<_> = failures.iter().map(|(host, failure)| format!("{host}: {}", failure.text)).collect();
        ConnectError { text: texts.join("; "), lasting: any(Kind::Lasting) && !any(Kind::Passing) }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for ConnectError {}

impl From<Error> for ConnectError {
    fn from(error: Error) -> ConnectError {
        ConnectError { text: super::pool::describe(&error), lasting: false }
    }
}

impl From<ConnectError> for StoreError {
    fn from(error: ConnectError) -> StoreError {
        match error.lasting {
            true => StoreError::Unusable(error.text),
            false => StoreError::Unavailable(error.text),
        }
    }
}

/// Makes connections for the pool.
pub(super) struct Manager(pub(super) Target);

impl managed::Manager for Manager {
    type Type = ClientWrapper;
    type Error = ConnectError;

    async fn create(&self) -> Result<ClientWrapper, ConnectError> {
        let (client, connection) = self.0.connect().await?;
        let task = tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::warn!(error = super::pool::describe(&error), "a connection to the database ended");
            }
        });
        Ok(ClientWrapper::new(client, task))
    }

    async fn recycle(&self, client: &mut ClientWrapper, _: &Metrics) -> RecycleResult<ConnectError> {
        match client.is_closed() {
            true => Err(RecycleError::message("the connection was closed")),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_helps_while_any_host_may_come_back() {
        let passing = || Failure::passing("down".into());
        let lasting = || Failure::lasting("untrusted".into());
        let standby = || Failure { text: "it is a standby".into(), kind: Kind::Standby };
        for (failures, is_lasting) in [
            (vec![passing()], false),
            (vec![lasting()], true),
            (vec![standby()], false),
            (vec![standby(), standby()], false),
            (vec![standby(), lasting()], true),
            (vec![passing(), lasting()], false),
            (vec![lasting(), lasting()], true),
        ] {
            let named: Vec<_> = failures.into_iter().map(|failure| ("h:1", failure)).collect();
            let error = ConnectError::of(&named);
            assert_eq!(error.lasting, is_lasting, "{error}");
            assert_eq!(error.text.matches("h:1: ").count(), named.len());
        }
    }

    #[test]
    fn only_versions_that_are_known_to_be_too_old_are() {
        for old in ["13.14", "9.6.24", "13beta1"] {
            assert_eq!(too_old(old), Some(old));
        }
        for good in ["14.0", "15.13 (Debian 15.13-0+deb12u1)", "18beta2", "of no kind", ""] {
            assert_eq!(too_old(good), None, "{good}");
        }
    }
}
