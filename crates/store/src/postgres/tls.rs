//! TLS towards PostgreSQL: what `sslmode`, `sslrootcert`, `sslcert` and `sslkey` of a URL mean, as
//! libpq reads them, and how a server's certificate is checked.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;
use x509_cert::der::Decode;

/// How much TLS a URL asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TlsMode {
    /// Never.
    Disable,
    /// Where the server has it, and without where that does not work.
    Prefer,
    /// Always, with whoever answers.
    Require,
    /// Always, with a certificate that a trusted CA has signed.
    VerifyCa,
    /// Always, with a certificate that a trusted CA has signed for the host of the URL.
    VerifyFull,
}

impl TlsMode {
    pub(super) fn read(text: &str) -> Result<TlsMode, String> {
        match text {
            "disable" => Ok(TlsMode::Disable),
            "prefer" => Ok(TlsMode::Prefer),
            "require" => Ok(TlsMode::Require),
            "verify-ca" => Ok(TlsMode::VerifyCa),
            "verify-full" => Ok(TlsMode::VerifyFull),
            _ => Err("sslmode must be disable, prefer, require, verify-ca or verify-full".into()),
        }
    }
}

/// Which CAs are trusted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Roots {
    /// Those of the operating system.
    System,
    /// Those in a file.
    File(PathBuf),
}

/// What a URL says of TLS.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct TlsParams {
    pub(super) mode: Option<TlsMode>,
    pub(super) roots: Option<Roots>,
    pub(super) certificate: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
}

impl TlsParams {
    /// The mode that holds: what the URL says, and what follows from it where it says nothing.
    pub(super) fn mode(&self) -> Result<TlsMode, String> {
        match (self.mode, &self.roots) {
            (None, Some(Roots::System)) => Ok(TlsMode::VerifyFull),
            // Anybody can have a certificate of a public CA, for some name.
            (Some(mode), Some(Roots::System)) if !matches!(mode, TlsMode::VerifyFull | TlsMode::Disable) => {
                Err("sslrootcert=system needs sslmode=verify-full: anybody can have a certificate of a \
                     public CA, so the name in it has to be checked"
                    .into())
            }
            (Some(TlsMode::VerifyCa), None) => Err("sslmode=verify-ca needs sslrootcert=FILE with the certificate \
                 of the CA that is trusted"
                .into()),
            (mode, _) => Ok(mode.unwrap_or(TlsMode::Prefer)),
        }
    }

    /// Reads the files, and makes what connections are made with.
    pub(super) fn connector(&self, direct: bool) -> Result<MakeRustlsConnect, String> {
        let mode = self.mode()?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = match (mode, &self.roots) {
            (TlsMode::Disable, _) | (TlsMode::Prefer | TlsMode::Require, None) => Arc::new(Anybody(provider.clone())),
            // As libpq does: whoever names a CA wants it to be looked at.
            (TlsMode::Prefer | TlsMode::Require | TlsMode::VerifyCa | TlsMode::VerifyFull, roots) => {
                let known = read_roots(roots.as_ref().unwrap_or(&Roots::System))?;
                Arc::new(Trusted::new(known, mode == TlsMode::VerifyFull, &provider)?)
            }
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match self.identity()? {
            Some((chain, key)) => builder.with_client_auth_cert(chain, key).map_err(|error| {
                format!("sslcert and sslkey do not go together, or the key is of a kind that cannot be used: {error}")
            })?,
            None => builder.with_no_client_auth(),
        };
        if direct {
            config.alpn_protocols = vec![b"postgresql".to_vec()];
        }
        Ok(MakeRustlsConnect::new(config))
    }

    /// The certificate that this client shows, and its key.
    fn identity(&self) -> Result<Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>, String> {
        let (certificate, key) = match (&self.certificate, &self.key) {
            (None, None) => return Ok(None),
            (Some(certificate), Some(key)) => (certificate, key),
            (Some(_), None) => return Err("sslcert needs sslkey=FILE with its private key".into()),
            (None, Some(_)) => return Err("sslkey needs sslcert=FILE with its certificate".into()),
        };
        let chain = read_certificates("sslcert", certificate)?;
        let pem = read("sslkey", key)?;
        let key = PrivateKeyDer::from_pem_slice(&pem).map_err(|_| {
            let encrypted = pem.windows(9).any(|word| word == b"ENCRYPTED");
            let todo = match encrypted {
                true => "is encrypted, and nobody is there to type a passphrase: decrypt it with `openssl pkey`",
                false => "holds no private key in PEM form (BEGIN PRIVATE KEY)",
            };
            format!("sslkey: {} {todo}", key.display())
        })?;
        Ok(Some((chain, key)))
    }
}

fn read(parameter: &str, path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{parameter}: {} cannot be read: {error}", path.display()))
}

fn read_certificates(parameter: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = read(parameter, path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) | Err(_) => {
            Err(format!("{parameter}: {} holds no certificate in PEM form (BEGIN CERTIFICATE)", path.display()))
        }
    }
}

fn read_roots(roots: &Roots) -> Result<Vec<CertificateDer<'static>>, String> {
    match roots {
        Roots::File(path) => read_certificates("sslrootcert", path),
        Roots::System => {
            let found = rustls_native_certs::load_native_certs();
            match found.certs.is_empty() {
                false => Ok(found.certs),
                true => Err("sslrootcert=system: the operating system has no CA certificates; install them \
                             (ca-certificates), or give sslrootcert=FILE"
                    .into()),
            }
        }
    }
}

/// Checks nothing but that the other side has the key of its certificate: what is said is hidden from
/// those who only listen.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Checks who has signed a certificate and, where asked for, whose it is.
#[derive(Debug)]
struct Trusted {
    signed: Arc<WebPkiServerVerifier>,
    roots: Vec<CertificateDer<'static>>,
    names: bool,
}

impl Trusted {
    fn new(
        roots: Vec<CertificateDer<'static>>,
        names: bool,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Trusted, String> {
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(roots.iter().cloned());
        let signed = WebPkiServerVerifier::builder_with_provider(store.into(), provider.clone()).build();
        let signed = signed.map_err(|error| format!("sslrootcert holds no CA that can be used: {error}"))?;
        Ok(Trusted { signed, roots, names })
    }

    /// Checks a certificate that is itself in the file of trusted ones: one that has signed itself, which
    /// `openssl req -x509` marks as a CA, and which a chain of certificates must not end with.
    fn verify_pinned(
        &self,
        certificate: &CertificateDer<'_>,
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let read = x509_cert::Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
        let validity = read.tbs_certificate.validity;
        if now.as_secs() > validity.not_after.to_unix_duration().as_secs() {
            return Err(CertificateError::Expired.into());
        }
        if now.as_secs() < validity.not_before.to_unix_duration().as_secs() {
            return Err(CertificateError::NotValidYet.into());
        }
        if self.names {
            rustls::client::verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
        }
        Ok(ServerCertVerified::assertion())
    }
}

impl ServerCertVerifier for Trusted {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.roots.iter().any(|root| root == certificate) {
            return self.verify_pinned(certificate, name, now);
        }
        match self.signed.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            // The name is looked at last, when everything else is good.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.names => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signed.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signed.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_url_does_not_say_of_tls_follows_from_what_it_says() {
        use TlsMode::{Disable, Prefer, Require, VerifyCa, VerifyFull};
        let file = || Some(Roots::File("/ca.pem".into()));
        let mode = |mode, roots| TlsParams { mode, roots, ..TlsParams::default() }.mode();
        assert_eq!(mode(None, None), Ok(Prefer));
        assert_eq!(mode(None, file()), Ok(Prefer));
        assert_eq!(mode(None, Some(Roots::System)), Ok(VerifyFull));
        assert_eq!(mode(Some(VerifyFull), None), Ok(VerifyFull));
        for given in [Disable, Prefer, Require, VerifyCa, VerifyFull] {
            assert_eq!(mode(Some(given), file()), Ok(given));
        }
        for weak in [Prefer, Require, VerifyCa] {
            assert!(mode(Some(weak), Some(Roots::System)).unwrap_err().contains("sslmode=verify-full"));
        }
        assert!(mode(Some(VerifyCa), None).unwrap_err().contains("sslrootcert=FILE"));
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named_with_its_parameter() {
        let home = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = home.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let gone = home.path().join("gone.pem");
        let empty = write("empty.pem", "");
        let locked =
            write("locked.pem", "-----BEGIN ENCRYPTED PRIVATE KEY-----\n-----END ENCRYPTED PRIVATE KEY-----\n");
        let roots = |path: &Path| TlsParams { roots: Some(Roots::File(path.into())), ..TlsParams::default() };
        for (params, words) in [
            (roots(&gone), vec!["sslrootcert", "gone.pem", "cannot be read"]),
            (roots(&empty), vec!["sslrootcert", "empty.pem", "BEGIN CERTIFICATE"]),
            (roots(home.path()), vec!["sslrootcert", "cannot be read"]),
            (TlsParams { certificate: Some(gone.clone()), ..TlsParams::default() }, vec!["sslcert needs sslkey"]),
            (TlsParams { key: Some(gone.clone()), ..TlsParams::default() }, vec!["sslkey needs sslcert"]),
        ] {
            let said = params.connector(false).err().unwrap();
            assert!(words.iter().all(|word| said.contains(word)), "{said}");
        }
        let made = baton_testkit::Authority::new().server(&["db.test"]);
        let certificate = write("cert.pem", &made.certificate);
        for (key, word) in [(&locked, "encrypted"), (&empty, "BEGIN PRIVATE KEY"), (&gone, "cannot be read")] {
            let (certificate, key) = (Some(certificate.clone()), Some(key.clone()));
            let said = TlsParams { certificate, key, ..TlsParams::default() }.connector(false).err().unwrap();
            assert!(said.contains("sslkey") && said.contains(word), "{said}");
        }
    }
}
