//! An authority that vouches for whatever a test asks it to.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

/// An authority with a key of its own.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

/// A certificate and its key, as PEM.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The certificate.
    pub certificate: String,
    /// The key that belongs to it.
    pub key: String,
}

impl Default for Authority {
    fn default() -> Authority {
        Authority::new()
    }
}

impl Authority {
    /// Another one each time.
    pub fn new() -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        // Of two with one name a client could not say that it does not know the other.
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        params.distinguished_name = name(&format!("authority {number} of the tests"), None);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key"));
        Authority { issuer: issuer.expect("a certificate") }
    }

    /// Its own certificate, as PEM.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate of a server for these names and addresses.
    pub fn server(&self, names: &[&str]) -> Issued {
        self.issue(names, ExtendedKeyUsagePurpose::ServerAuth, name("a server", None), (2000, 4000))
    }

    /// The same, good only in the past.
    pub fn expired(&self, names: &[&str]) -> Issued {
        self.issue(names, ExtendedKeyUsagePurpose::ServerAuth, name("a server", None), (2000, 2001))
    }

    /// A certificate of a client with this common name, of this organization, which is also known by
    /// these names.
    pub fn client(&self, common: &str, organization: Option<&str>, names: &[&str]) -> Issued {
        self.issue(names, ExtendedKeyUsagePurpose::ClientAuth, name(common, organization), (2000, 4000))
    }

    fn issue(
        &self,
        names: &[&str],
        purpose: ExtendedKeyUsagePurpose,
        subject: DistinguishedName,
        years: (i32, i32),
    ) -> Issued {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("good names");
        params.distinguished_name = subject;
        params.extended_key_usages = vec![purpose];
        params.not_before = rcgen::date_time_ymd(years.0, 1, 1);
        params.not_after = rcgen::date_time_ymd(years.1, 1, 1);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Issued { certificate, key: key.serialize_pem() }
    }
}

impl Issued {
    /// One that has signed itself and calls itself an authority, as `openssl req -x509` makes them.
    pub fn self_signed(names: &[&str]) -> Issued {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("good names");
        params.distinguished_name = name("a server", None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate").pem();
        Issued { certificate, key: key.serialize_pem() }
    }

    /// Writes both into a directory, under this name, and returns where certificate and key are.
    pub fn write(&self, directory: &Path, name: &str) -> (PathBuf, PathBuf) {
        let paths = (directory.join(format!("{name}.crt")), directory.join(format!("{name}.key")));
        // As tools that renew certificates do: never half a file.
        for (path, text) in [(&paths.0, &self.certificate), (&paths.1, &self.key)] {
            let draft = path.with_extension("new");
            std::fs::write(&draft, text).expect("our own directory");
            std::fs::rename(&draft, path).expect("our own directory");
        }
        paths
    }
}

fn name(common: &str, organization: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    name.push(DnType::CommonName, common);
    name
}
