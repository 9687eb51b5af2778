//! Certificates for tests: a CA of our own, and what it signs.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};

/// A certificate and its private key, both as PEM.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// BEGIN CERTIFICATE.
    pub certificate: String,
    /// BEGIN PRIVATE KEY.
    pub key: String,
}

impl Certificate {
    /// One that has signed itself and calls itself a CA, as `openssl req -x509` makes them.
    pub fn self_signed(names: &[&str]) -> Certificate {
        let mut params = params(names);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        Certificate { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

/// A CA.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

impl Authority {
    /// A new one, which nobody trusts yet.
    pub fn new(name: &str) -> Authority {
        let mut params = params(&[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate").pem();
        Authority { issuer: Issuer::new(params, key), certificate }
    }

    /// Its own certificate, as PEM: what whoever trusts it has.
    pub fn pem(&self) -> &str {
        &self.certificate
    }

    /// A certificate for a server with these names or addresses.
    pub fn certificate(&self, names: &[&str]) -> Certificate {
        self.sign(params(names))
    }

    /// One whose time is over.
    pub fn expired(&self, names: &[&str]) -> Certificate {
        let mut params = params(names);
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
        self.sign(params)
    }

    /// One for a client that calls itself this.
    pub fn client(&self, name: &str) -> Certificate {
        let mut params = params(&[]);
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn sign(&self, params: CertificateParams) -> Certificate {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Certificate { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("good names");
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
}
