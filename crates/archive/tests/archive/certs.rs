//! The parts of an archive of certificates.

use std::io::Cursor;

use baton_archive::{CERTS_BYTES_MAX, Certs, CertsProblem, Error, certs};

use crate::raw_tar::{file, gzip, tar};
use crate::raw_zip::{Entry, deflated, directory, link, stored, zip};

fn read(entries: &[Entry]) -> Result<Certs, Error> {
    certs(Cursor::new(zip(entries)))
}

fn problem(entries: &[Entry]) -> CertsProblem {
    match read(entries) {
        Err(Error::Certs(problem)) => problem,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_parts_are_found_wherever_they_lie() {
    let certs = read(&[
        directory("certs/"),
        deflated("certs/dist.P12", b"identity"),
        stored("certs/password.txt", "p\u{e4}ss word\n"),
        stored("app/embedded.mobileprovision", "app profile"),
        stored("extension/embedded.mobileprovision", "extension profile"),
        stored("mac.provisionprofile", "mac profile"),
        stored("README.md", "not a part"),
        // What the Finder adds.
        stored("__MACOSX/certs/._dist.P12", "shadow"),
        stored("certs/._password.txt", "shadow"),
        link("latest.p12", "certs/dist.P12"),
    ])
    .unwrap();
    assert_eq!(certs.p12.expose(), b"identity");
    assert_eq!(certs.p12_password.expose(), "p\u{e4}ss word");
    let profiles: Vec<_> =
        certs.provisioning_profiles.iter().map(|(name, bytes)| (&**name, &**bytes.expose())).collect();
    assert_eq!(
        profiles,
        [
            ("app/embedded.mobileprovision", &b"app profile"[..]),
            ("extension/embedded.mobileprovision", b"extension profile"),
            ("mac.provisionprofile", b"mac profile"),
        ]
    );
}

#[test]
fn one_newline_is_not_part_of_the_password() {
    for (name, content, password) in [
        ("password.txt", "secret", "secret"),
        ("dist.password", "secret\n", "secret"),
        ("d/p12_password", "secret\r\n", "secret"),
        ("password.txt", "secret\n\n", "secret\n"),
        ("password.txt", " secret \r", " secret \r"),
        ("password.txt", "", ""),
        ("password.txt", "\n", ""),
    ] {
        let certs = read(&[stored("a.p12", "x"), stored(name, content)]).unwrap();
        assert_eq!(certs.p12_password.expose(), password, "{name} {content:?}");
    }
}

#[test]
fn what_is_missing_or_doubled_is_said() {
    let identity = || stored("a.p12", "x");
    let password = || stored("password.txt", "x");
    assert_eq!(problem(&[password()]), CertsProblem::NoIdentity);
    assert_eq!(problem(&[identity()]), CertsProblem::NoPassword);
    assert_eq!(problem(&[]), CertsProblem::NoIdentity);
    let two = problem(&[identity(), password(), stored("d/b.p12", "y")]);
    assert_eq!(two, CertsProblem::TwoIdentities("a.p12".into(), "d/b.p12".into()));
    let two = problem(&[identity(), password(), stored("b.password", "y")]);
    assert_eq!(two, CertsProblem::TwoPasswords("password.txt".into(), "b.password".into()));
    let binary = problem(&[identity(), stored("password.txt", b"\xff\xfe")]);
    assert_eq!(binary, CertsProblem::PasswordNotText("password.txt".into()));
    let other = certs(Cursor::new(gzip(&tar(&[file("a.p12", b"x")]))));
    assert!(matches!(other, Err(Error::Certs(CertsProblem::NotAZip))), "{other:?}");
    assert!(matches!(certs(Cursor::new(b"no archive")), Err(Error::NotAnArchive)));
}

#[test]
fn certificates_are_small() {
    let large = vec![0; CERTS_BYTES_MAX as usize + 1];
    for entries in [
        vec![deflated("large", &large)],
        vec![stored("large", &large)],
        vec![deflated("a.p12", &large[..10 << 20]), deflated("b", &large[..10 << 20])],
        (0..1_001).map(|number| stored(format!("{number}"), "")).collect(),
    ] {
        let result = read(&entries);
        assert!(matches!(result, Err(Error::TooLarge(_))), "{result:?}");
    }
}

#[test]
fn no_secret_is_in_debug_output_or_errors() {
    let entries =
        [stored("a.p12", "IDENTITY"), stored("password.txt", "PASSWORD"), stored("a.mobileprovision", "PROFILE")];
    let certs = read(&entries).unwrap();
    for text in [format!("{certs:?}"), format!("{certs:#?}"), format!("{:?}", certs.p12_password)] {
        assert!(!["IDENTITY", "PASSWORD", "PROFILE", "73, 68"].iter().any(|secret| text.contains(secret)), "{text}");
        assert!(text.contains("[secret]"), "{text}");
    }
    let damaged = entries.map(|entry| entry.with(|entry| entry.crc ^= 1));
    let error = read(&damaged).unwrap_err();
    assert!(!format!("{error} {error:?}").contains("IDENTITY"), "{error:?}");
}
