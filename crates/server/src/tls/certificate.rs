//! What a certificate says: for how long it is good, and whom it names.

use baton_core::Millis;
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// What is read of a certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct About {
    /// Until when it is good.
    pub not_after: Millis,
    /// Its subject as RFC 4514 writes it (`CN=worker-1,O=Acme`), then its other names, like
    /// `dns:worker-1.example`, `uri:spiffe://acme/worker-1` and `email:ci@acme.example`.
    pub names: Vec<String>,
    /// The SHA-256 of all of it, as `sha256:` and hexadecimal digits.
    pub fingerprint: String,
}

impl About {
    /// Reads a certificate, or says why it cannot be read.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<About, String> {
        let read = Certificate::from_der(certificate).map_err(|error| format!("it is no certificate: {error}"))?;
        let content = read.tbs_certificate;
        let mut names = Vec::new();
        if !content.subject.is_empty() {
            names.push(content.subject.to_string());
        }
        if let Ok(Some((_, SubjectAltName(others)))) = content.get::<SubjectAltName>() {
            names.extend(others.iter().filter_map(other_name));
        }
        let not_after = content.validity.not_after.to_unix_duration().as_millis();
        Ok(About {
            not_after: Millis::try_from(not_after).unwrap_or(Millis::MAX),
            names,
            fingerprint: fingerprint(certificate),
        })
    }
}

fn other_name(name: &GeneralName) -> Option<String> {
    match name {
        GeneralName::DnsName(name) => Some(format!("dns:{name}")),
        GeneralName::UniformResourceIdentifier(uri) => Some(format!("uri:{uri}")),
        GeneralName::Rfc822Name(address) => Some(format!("email:{address}")),
        // Nobody is known by the others.
        _ => None,
    }
}

/// What a certificate is told apart by.
pub fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    let sum = Sha256::digest(certificate);
    sum.iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

    use super::*;

    #[test]
    fn a_certificate_says_whom_it_names_and_until_when_it_is_good() {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Acme, Inc.");
        params.distinguished_name.push(DnType::CommonName, "worker-1");
        params.not_after = rcgen::date_time_ymd(2030, 1, 2);
        params.subject_alt_names = vec![
            SanType::DnsName("worker-1.example".try_into().unwrap()),
            SanType::URI("spiffe://acme/worker-1".try_into().unwrap()),
            SanType::Rfc822Name("ci@acme.example".try_into().unwrap()),
            SanType::IpAddress([10, 0, 0, 1].into()),
        ];
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let about = About::of(made.der()).unwrap();
        assert_eq!(about.not_after, 1_893_542_400_000);
        let names = [
            r"CN=worker-1,O=Acme\, Inc.",
            "dns:worker-1.example",
            "uri:spiffe://acme/worker-1",
            "email:ci@acme.example",
        ];
        assert_eq!(about.names, names);
        assert!(about.fingerprint.starts_with("sha256:") && about.fingerprint.len() == 71, "{about:?}");
        assert!(About::of(&CertificateDer::from(vec![0x30, 1])).is_err());
    }
}
