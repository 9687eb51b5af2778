//! Certificate, key and authorities of clients, as they lie in files.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_core::Millis;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};

use super::certificate::About;

/// HTTP/2 first: gRPC needs it, and others are served as well by it.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Which files there are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Files {
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Who vouches for clients, and whether each has to show a certificate.
    pub clients: Option<(PathBuf, bool)>,
}

/// What tells a file from what it was before.
pub(super) type Marks = Vec<Option<(i64, i64, u64, u64, u64)>>;

/// What was read of them.
pub(super) struct Loaded {
    pub config: Arc<ServerConfig>,
    /// The certificate of the server itself.
    pub about: About,
}

impl Files {
    /// Notes which files there are now, without reading them.
    pub fn marks(&self) -> Marks {
        let mark = |path: &Path| {
            let found = std::fs::metadata(path).ok()?;
            Some((found.mtime(), found.mtime_nsec(), found.len(), found.ino(), found.dev()))
        };
        let clients = self.clients.iter().map(|(path, _)| path.as_path());
        [self.certificate.as_path(), &self.key].into_iter().chain(clients).map(mark).collect()
    }

    /// Reads them, or says what is wrong with which.
    pub fn load(&self) -> Result<Loaded, String> {
        let chain = certificates(&self.certificate)?;
        let about = About::of(&chain[0]).map_err(|why| format!("{}: {why}", self.certificate.display()))?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| unread(&self.key, "private key", &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = match &self.clients {
            None => builder.with_no_client_auth(),
            Some((path, is_required)) => {
                let mut roots = RootCertStore::empty();
                for authority in certificates(path)? {
                    roots.add(authority).map_err(|error| format!("{}: {error}", path.display()))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = if *is_required { verifier } else { verifier.allow_unauthenticated() };
                builder.with_client_cert_verifier(verifier.build().map_err(|error| error.to_string())?)
            }
        };
        let (certificate, key_path) = (self.certificate.display(), self.key.display());
        let mut config = builder.with_single_cert(chain, key).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                format!("the key in {key_path} does not belong to the certificate in {certificate}")
            }
            error => format!("the certificate in {certificate} cannot be used with the key in {key_path}: {error}"),
        })?;
        config.alpn_protocols = PROTOCOLS.iter().map(|protocol| protocol.to_vec()).collect();
        if self.clients.is_some() {
            // A session that is taken up again is not asked for its certificate, which may have
            // ended, or whose authority may be trusted no more.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        } else {
            // Clients come back with what they were given, and nothing is kept for them here.
            config.ticketer = rustls::crypto::ring::Ticketer::new().map_err(|error| error.to_string())?;
            config.send_tls13_tickets = 1;
        }
        Ok(Loaded { config: Arc::new(config), about })
    }
}

/// The certificates in a file: at least one.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    match found {
        Ok(found) if found.is_empty() => {
            Err(format!("{}: there is no certificate in it (PEM is wanted)", path.display()))
        }
        Ok(found) => Ok(found),
        Err(error) => Err(unread(path, "certificate", &error)),
    }
}

/// Why a file could not be read. Nothing of what is in it is said: it may be a key.
fn unread(path: &Path, what: &str, error: &rustls::pki_types::pem::Error) -> String {
    use rustls::pki_types::pem::Error;
    match error {
        Error::Io(error) => format!("cannot read {}: {error}", path.display()),
        Error::NoItemsFound => format!("{}: there is no {what} in it (PEM is wanted)", path.display()),
        _ => format!("{}: it is not a good PEM file with a {what}", path.display()),
    }
}

/// What a file of certificates says of its first one, for those who only look.
pub fn look(path: &Path) -> Result<About, String> {
    About::of(&certificates(path)?[0]).map_err(|why| format!("{}: {why}", path.display()))
}

/// True for a certificate whose time is over.
pub(super) fn is_over(about: &About, now: Millis) -> bool {
    about.not_after <= now
}
