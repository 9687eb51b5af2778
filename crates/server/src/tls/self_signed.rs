//! The certificate that a server makes for itself on its first start with `--tls self-signed`.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, SanType};

/// How long it is good. Clients that know its fingerprint have to be told of the next one, so that
/// comes when somebody asks for it, not by itself.
const GOOD_FOR: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// Clocks of clients may be a little slow.
const GOOD_BEFORE: Duration = Duration::from_secs(24 * 3600);

/// Where certificate and key are.
pub(super) fn paths(data: &Path) -> (PathBuf, PathBuf) {
    (data.join("tls/self-signed.crt"), data.join("tls/self-signed.key"))
}

/// Makes certificate and key unless they are there. True when they were made now.
pub(super) fn ensure(data: &Path, listen: &str) -> Result<bool, String> {
    let (certificate, key) = paths(data);
    if certificate.exists() && key.exists() {
        return Ok(false);
    }
    let cannot = |what: &Path| {
        let what = what.display().to_string();
        move |error: std::io::Error| format!("cannot write {what}: {error}")
    };
    let (certificate_pem, key_pem) =
        make(&names(listen)).map_err(|error| format!("cannot make a certificate: {error}"))?;
    let directory = data.join("tls");
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(cannot(&directory))?;
    // The certificate last: a key alone is made anew with the next start.
    write(&key, &key_pem, 0o600).map_err(cannot(&key))?;
    write(&certificate, &certificate_pem, 0o644).map_err(cannot(&certificate))?;
    Ok(true)
}

/// Writes a file whole or not at all.
pub(super) fn write(path: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    let draft = path.with_extension("draft");
    let _ = std::fs::remove_file(&draft);
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&draft)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&draft, path)
}

/// Whom it is for: this machine, by whatever it is called here, and where the server listens.
fn names(listen: &str) -> Vec<SanType> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let mut names: Vec<SanType> = ["localhost", &host]
        .into_iter()
        .filter(|name| !name.is_empty())
        .filter_map(|name| name.try_into().ok().map(SanType::DnsName))
        .collect();
    names.dedup();
    let mut addresses: Vec<IpAddr> = vec![[127, 0, 0, 1].into(), std::net::Ipv6Addr::LOCALHOST.into()];
    if let Ok(listen) = listen.parse::<SocketAddr>()
        && !listen.ip().is_unspecified()
        && !addresses.contains(&listen.ip())
    {
        addresses.push(listen.ip());
    }
    names.extend(addresses.into_iter().map(SanType::IpAddress));
    names
}

fn make(names: &[SanType]) -> Result<(String, String), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "Baton, self-signed");
    params.subject_alt_names = names.to_vec();
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + now.saturating_sub(GOOD_BEFORE);
    params.not_after = epoch + now + GOOD_FOR;
    Ok((params.self_signed(&key)?.pem(), key.serialize_pem()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    use super::*;

    #[test]
    fn it_is_made_once_and_its_key_is_for_its_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        assert!(ensure(directory.path(), "10.1.2.3:7400").unwrap());
        let (certificate, key) = paths(directory.path());
        let first = std::fs::read(&certificate).unwrap();
        assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!ensure(directory.path(), "127.0.0.1:7400").unwrap());
        assert_eq!(std::fs::read(&certificate).unwrap(), first);
        let der = CertificateDer::from_pem_slice(&first).unwrap();
        let about = super::super::certificate::About::of(&der).unwrap();
        assert!(about.names.contains(&"dns:localhost".to_owned()), "{about:?}");
        // A crash between the two leaves a key without its certificate.
        std::fs::remove_file(&certificate).unwrap();
        assert!(ensure(directory.path(), "127.0.0.1:7400").unwrap());
    }

    #[test]
    fn it_names_this_machine_and_where_the_server_listens() {
        let has = |listen: &str, ip: &str| names(listen).contains(&SanType::IpAddress(ip.parse().unwrap()));
        assert!(has("0.0.0.0:1", "127.0.0.1") && has("0.0.0.0:1", "::1") && !has("0.0.0.0:1", "0.0.0.0"));
        assert!(has("10.1.2.3:1", "10.1.2.3"));
        assert_eq!(names("127.0.0.1:1").len(), names("0.0.0.0:1").len());
    }
}
