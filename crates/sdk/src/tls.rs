//! Trust: which servers a client believes, and what it shows them.

use std::error::Error as StdError;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, RootCertStore,
    SignatureScheme,
};
use sha2::{Digest, Sha256};

use crate::ClientError;
use crate::transfer::hexadecimal;

/// What a fingerprint begins with.
const PIN_PREFIX: &str = "sha256:";
/// Most bytes that are read of a file with fingerprints.
const PIN_FILE_BYTES_MAX: usize = 4 << 10;

/// Which servers are believed over `https://`, and what they are shown. Unless told otherwise those
/// that this system's own authorities vouch for.
///
/// ```no_run
/// # async fn example() -> Result<(), baton::ClientError> {
/// let tls = baton::Tls::new().ca_file("/etc/baton/ca.pem")?.client_certificate("worker.pem", "worker.key")?;
/// let client = baton::Client::connect("https://baton.internal:7400").tls(tls).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
pub struct Tls {
    authorities: Vec<CertificateDer<'static>>,
    identity: Option<(Vec<CertificateDer<'static>>, Arc<PrivateKeyDer<'static>>)>,
    pins: Vec<String>,
    pin_file: Option<PathBuf>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("pins", &self.pins).finish_non_exhaustive()
    }
}

impl Tls {
    /// The authorities of this system, and nobody else.
    pub fn new() -> Tls {
        Tls::default()
    }

    /// What the environment says: `BATON_CA`, `BATON_CLIENT_CERT` with `BATON_CLIENT_KEY`,
    /// `BATON_TLS_PIN` and `BATON_TLS_PIN_FILE`.
    pub fn from_environment() -> Result<Tls, ClientError> {
        let said = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let mut tls = Tls::new();
        if let Some(path) = said("BATON_CA") {
            tls = tls.ca_file(path)?;
        }
        if let Some(pins) = said("BATON_TLS_PIN") {
            tls = tls.pin(&pins)?;
        }
        if let Some(path) = said("BATON_TLS_PIN_FILE") {
            tls = tls.pin_file(path);
        }
        match (said("BATON_CLIENT_CERT"), said("BATON_CLIENT_KEY")) {
            (Some(certificate), Some(key)) => tls.client_certificate(certificate, key),
            (None, None) => Ok(tls),
            _ => Err(ClientError::Invalid("BATON_CLIENT_CERT and BATON_CLIENT_KEY go together: one is not set".into())),
        }
    }

    /// Also believes servers that the authorities in this file (PEM) vouch for.
    pub fn ca_file(mut self, path: impl AsRef<Path>) -> Result<Tls, ClientError> {
        let (path, mut roots) = (path.as_ref(), RootCertStore::empty());
        for authority in certificates(path)? {
            let wrong =
                |error| ClientError::Invalid(format!("{}: it is no authority's certificate: {error}", path.display()));
            roots.add(authority.clone()).map_err(wrong)?;
            self.authorities.push(authority);
        }
        Ok(self)
    }

    /// Shows this certificate to servers that ask for one (both files PEM).
    pub fn client_certificate(
        mut self,
        certificate: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> Result<Tls, ClientError> {
        let chain = certificates(certificate.as_ref())?;
        let key = key.as_ref();
        let read = PrivateKeyDer::from_pem_file(key).map_err(|error| unread(key, "private key", &error))?;
        self.identity = Some((chain, Arc::new(read)));
        Ok(self)
    }

    /// Believes the server with this certificate, given by its fingerprint (`sha256:` and 64
    /// hexadecimal digits, as the server prints it), and no other. Several have commas between them.
    pub fn pin(mut self, pins: &str) -> Result<Tls, ClientError> {
        for pin in pins.split(',') {
            let pin = read_pin(pin).ok_or_else(|| {
                ClientError::Invalid(format!(
                    "{pin:?} is no fingerprint: it must be {PIN_PREFIX} and 64 hexadecimal digits, as the server prints it when it starts"
                ))
            })?;
            self.pins.push(pin);
        }
        Ok(self)
    }

    /// Also believes servers whose fingerprint is in this file, which is read anew for every
    /// connection. A server leaves one in its data directory.
    pub fn pin_file(mut self, path: impl Into<PathBuf>) -> Tls {
        self.pin_file = Some(path.into());
        self
    }

    /// How connections are encrypted that speak this protocol.
    pub(crate) fn config(&self, protocol: &[u8]) -> Result<Arc<ClientConfig>, ClientError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let wrong = |error: Error| ClientError::Invalid(format!("TLS cannot be set up: {error}"));
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(wrong)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(self.verifier(provider)));
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder.with_client_auth_cert(chain.clone(), key.clone_key()).map_err(|error| {
                ClientError::Invalid(format!("the client certificate cannot be used with its key: {error}"))
            })?,
        };
        config.alpn_protocols = vec![protocol.to_vec()];
        Ok(Arc::new(config))
    }

    fn verifier(&self, provider: Arc<CryptoProvider>) -> Verifier {
        Verifier {
            own: self.authorities.clone(),
            authorities: OnceLock::new(),
            pins: self.pins.clone(),
            pin_file: self.pin_file.clone(),
            provider,
        }
    }
}

/// The authorities of this system. They are read once.
fn system_roots() -> &'static [rustls::pki_types::TrustAnchor<'static>] {
    static ROOTS: OnceLock<Vec<rustls::pki_types::TrustAnchor<'static>>> = OnceLock::new();
    ROOTS.get_or_init(|| {
        let found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            tracing::debug!(%error, "some of this system's authorities cannot be read");
        }
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(found.certs);
        roots.roots
    })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    match found {
        Ok(found) if found.is_empty() => {
            Err(ClientError::Invalid(format!("{}: there is no certificate in it (PEM is wanted)", path.display())))
        }
        Ok(found) => Ok(found),
        Err(error) => Err(unread(path, "certificate", &error)),
    }
}

fn unread(path: &Path, what: &str, error: &rustls::pki_types::pem::Error) -> ClientError {
    use rustls::pki_types::pem::Error;
    ClientError::Invalid(match error {
        Error::Io(error) => format!("cannot read {}: {error}", path.display()),
        Error::NoItemsFound => format!("{}: there is no {what} in it (PEM is wanted)", path.display()),
        _ => format!("{}: it is not a good PEM file with a {what}", path.display()),
    })
}

/// A fingerprint in the one way we write it. Others have colons between the bytes, or large letters.
fn read_pin(text: &str) -> Option<String> {
    let digits: String = text.trim().strip_prefix(PIN_PREFIX)?.chars().filter(|c| *c != ':').collect();
    let is_good = digits.len() == 64 && digits.chars().all(|c| c.is_ascii_hexdigit());
    is_good.then(|| format!("{PIN_PREFIX}{}", digits.to_ascii_lowercase()))
}

fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    format!("{PIN_PREFIX}{}", hexadecimal(&Sha256::digest(certificate)))
}

/// Decides whom to believe.
#[derive(Debug)]
struct Verifier {
    own: Vec<CertificateDer<'static>>,
    /// Those of the system and our own. Made when they are needed: where a fingerprint is enough,
    /// hundreds of certificates need not be read. None where there is nobody at all.
    authorities: OnceLock<Option<Arc<WebPkiServerVerifier>>>,
    /// If there are any, nothing else counts.
    pins: Vec<String>,
    pin_file: Option<PathBuf>,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    fn authorities(&self) -> Option<&Arc<WebPkiServerVerifier>> {
        let made = self.authorities.get_or_init(|| {
            let mut roots = RootCertStore { roots: system_roots().to_vec() };
            roots.add_parsable_certificates(self.own.iter().cloned());
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), self.provider.clone()).build().ok()
        });
        made.as_ref()
    }

    fn is_left(&self, found: &str) -> bool {
        let text = self.pin_file.as_ref().and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
        text.len() <= PIN_FILE_BYTES_MAX && text.lines().filter_map(read_pin).any(|pin| pin == found)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let found = fingerprint(end_entity);
        if self.pins.contains(&found) || self.is_left(&found) {
            return Ok(ServerCertVerified::assertion());
        }
        if !self.pins.is_empty() {
            return Err(distrust(format!(
                "its certificate has the fingerprint {found}, and {} is wanted (--tls-pin, BATON_TLS_PIN). If the server has a \
                 new certificate, compare with what it prints when it starts, and give the new fingerprint; if not, somebody \
                 else answers there",
                self.pins.join(" or ")
            )));
        }
        let nobody = Err(Error::InvalidCertificate(CertificateError::UnknownIssuer));
        let verified = self.authorities().map_or(nobody, |authorities| {
            authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
        });
        verified.map_err(|error| match error {
            Error::InvalidCertificate(why) => distrust(words(&why, server_name, &found)),
            other => other,
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Why a server is not believed, in words.
#[derive(Debug)]
struct Distrust(String);

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for Distrust {}

fn distrust(why: String) -> Error {
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(Distrust(why)))))
}

fn words(why: &CertificateError, server: &ServerName<'_>, found: &str) -> String {
    let server = server.to_str();
    match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the time of its certificate is over. Whoever runs the server has to replace it (docs/tls.md); if it is good, the \
             clock of this machine is wrong"
                .into()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the time of its certificate has not come yet: the clock of this machine, or of whoever made it, is wrong"
                .into()
        }
        CertificateError::NotValidForNameContext { presented, .. } if !presented.is_empty() => format!(
            "its certificate is not for {server}, but for {}: use one of these names in the address, or have {server} added",
            presented.iter().map(|name| shown(name)).collect::<Vec<_>>().join(", ")
        ),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("its certificate is not for {server}: use the name it is for, or have {server} added")
        }
        CertificateError::UnknownIssuer => format!(
            "nobody that this machine trusts vouches for its certificate ({found}). If it is from an authority of your own, \
             give that with --ca FILE (BATON_CA). If it is self-signed, compare the fingerprint with what the server prints \
             when it starts, and give it with --tls-pin (BATON_TLS_PIN)"
        ),
        other => format!("its certificate is not good: {other}"),
    }
}

/// A name as the certificate has it, without the words of whoever has read it: `DnsName("x")`.
fn shown(name: &str) -> &str {
    name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).map_or(name, |inner| inner.trim_matches('"'))
}

/// Why TLS failed for good: trying again changes nothing. Nothing when it was an accident.
pub(crate) fn refusal(error: &(dyn StdError + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        // The standard library hides the error inside of one of its own.
        let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        let found = error.downcast_ref::<Error>().or_else(|| inner?.downcast_ref::<Error>());
        if let Some(found) = found {
            return of_rustls(found);
        }
        next = match inner {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}

fn of_rustls(error: &Error) -> Option<String> {
    use AlertDescription as Alert;
    let client = "the server does not accept the client certificate (--client-cert): ";
    match error {
        Error::InvalidCertificate(CertificateError::Other(OtherError(why))) => Some(why.to_string()),
        Error::InvalidCertificate(why) => Some(format!("its certificate is not good: {why}")),
        Error::InvalidMessage(_) => {
            Some("what answers there speaks no TLS: use http:// in the address, or the port that speaks TLS".into())
        }
        Error::AlertReceived(Alert::CertificateRequired) => {
            Some("the server wants a client certificate: give one with --client-cert and --client-key (BATON_CLIENT_CERT, BATON_CLIENT_KEY)".into())
        }
        Error::AlertReceived(Alert::UnknownCA) => Some(format!("{client}it does not trust who has issued it")),
        Error::AlertReceived(Alert::CertificateExpired) => Some(format!("{client}its time is over")),
        Error::AlertReceived(
            Alert::BadCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateUnknown
            | Alert::UnsupportedCertificate
            | Alert::AccessDenied
            | Alert::DecryptError,
        ) => Some(format!("{client}{error}")),
        Error::AlertReceived(Alert::NoApplicationProtocol) | Error::NoApplicationProtocol => Some(
            "the server and this client have no protocol in common over TLS: gRPC needs HTTP/2 (ALPN h2), which a proxy may \
             have to be told of"
                .into(),
        ),
        Error::AlertReceived(Alert::ProtocolVersion | Alert::HandshakeFailure) | Error::PeerIncompatible(_) => {
            Some(format!("the server and this client have no kind of TLS in common: {error}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_read_as_people_write_it() {
        let hex = "0123456789abcdef".repeat(4);
        let colons: Vec<_> = hex.as_bytes().chunks(2).map(|two| String::from_utf8_lossy(two).to_uppercase()).collect();
        let expected = Some(format!("sha256:{hex}"));
        assert_eq!(read_pin(&format!(" sha256:{hex}\n")), expected);
        assert_eq!(read_pin(&format!("sha256:{}", colons.join(":"))), expected);
        for wrong in ["", "sha256:", &hex, &format!("sha256:{}", &hex[1..]), &format!("sha256:{}g", &hex[1..])] {
            assert_eq!(read_pin(wrong), None, "{wrong}");
        }
        assert_eq!(Tls::new().pin(&format!("sha256:{hex},sha256:{hex}")).unwrap().pins.len(), 2);
        assert!(matches!(Tls::new().pin("md5:00"), Err(ClientError::Invalid(_))));
    }

    #[test]
    fn files_that_cannot_be_used_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ca.pem");
        let said = |error: ClientError| error.to_string();
        assert!(said(Tls::new().ca_file(&path).unwrap_err()).starts_with("cannot read "));
        std::fs::write(&path, "hello").unwrap();
        assert!(said(Tls::new().ca_file(&path).unwrap_err()).contains("there is no certificate in it"));
        assert!(said(Tls::new().client_certificate(&path, &path).unwrap_err()).contains("ca.pem"));
    }

    #[test]
    fn what_will_not_change_is_told_from_accidents() {
        let io = |error: Error| std::io::Error::new(std::io::ErrorKind::InvalidData, error);
        let nested = std::io::Error::other(io(distrust("because".into())));
        assert_eq!(refusal(&nested).as_deref(), Some("because"));
        assert!(
            refusal(&io(Error::AlertReceived(AlertDescription::CertificateRequired)))
                .unwrap()
                .contains("--client-cert")
        );
        assert!(refusal(&io(Error::AlertReceived(AlertDescription::InternalError))).is_none());
        assert!(refusal(&std::io::Error::from(std::io::ErrorKind::ConnectionRefused)).is_none());
    }
}
