//! Signing certificates: one identity, its password, and provisioning profiles, in one zip.

use std::fmt;
use std::io::{Read, Seek};

use zeroize::{Zeroize, Zeroizing};

use crate::error::Error;
use crate::intake::Sink;
use crate::limits::Limits;
use crate::name::shown;
use crate::sniff::{Format, sniff};
use crate::unpack::read;

/// The largest archive of certificates, in bytes, packed and unpacked.
pub const CERTS_BYTES_MAX: u64 = 16 << 20;
const CERTS_ENTRIES_MAX: u64 = 1_000;

/// A value that is overwritten when it is dropped, and that no log shows by accident.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T: Zeroize>(Zeroizing<T>);

impl<T: Zeroize> Secret<T> {
    /// The value itself. Take care where it goes.
    pub fn expose(&self) -> &T {
        &self.0
    }
}

impl<T: Zeroize> From<T> for Secret<T> {
    fn from(value: T) -> Secret<T> {
        Secret(Zeroizing::new(value))
    }
}

impl<T: Zeroize> fmt::Debug for Secret<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[secret]")
    }
}

/// The parts of an archive of certificates.
#[derive(Clone, Debug)]
pub struct Certs {
    /// The identity: a certificate and its private key, as PKCS #12.
    pub p12: Secret<Vec<u8>>,
    /// The password of the identity. It may be empty.
    pub p12_password: Secret<String>,
    /// The provisioning profiles in the order of the archive, each with its path there.
    pub provisioning_profiles: Vec<(String, Secret<Vec<u8>>)>,
}

/// What is wrong with an archive of certificates.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertsProblem {
    /// It is not a zip.
    #[error("they have to come as a zip file")]
    NotAZip,
    /// There is no identity.
    #[error("there is no .p12 file in the archive")]
    NoIdentity,
    /// There are several identities.
    #[error("there is more than one .p12 file in the archive: {0} and {1}")]
    TwoIdentities(String, String),
    /// There is no password.
    #[error("there is no password in the archive: add it as password.txt, also when it is empty")]
    NoPassword,
    /// There are several passwords.
    #[error("there is more than one password in the archive: {0} and {1}")]
    TwoPasswords(String, String),
    /// The password is not text.
    #[error("the password in {0} is not UTF-8")]
    PasswordNotText(String),
}

/// Takes the parts out of a zip of certificates, wherever in it they lie: one `.p12`, its password in `password.txt`,
/// `p12_password` or a file that ends in `.password` (one newline at the end is not part of it), and any number of
/// `.mobileprovision` and `.provisionprofile`. Other files do not matter.
pub fn certs<R: Read + Seek>(mut reader: R) -> Result<Certs, Error> {
    let (format, archive_bytes) = sniff(&mut reader)?;
    if format != Format::Zip {
        return Err(CertsProblem::NotAZip.into());
    }
    let limits = Limits {
        total_bytes_max: CERTS_BYTES_MAX,
        file_bytes_max: CERTS_BYTES_MAX,
        entries_max: CERTS_ENTRIES_MAX,
        ratio_floor_bytes: CERTS_BYTES_MAX,
        ..Limits::default()
    };
    if archive_bytes > CERTS_BYTES_MAX {
        return Err(Error::TooLarge(crate::Limit::TotalBytes { bytes_max: CERTS_BYTES_MAX }));
    }
    let mut parts = Parts::default();
    read(reader, &limits, &mut parts)?;
    let (_, p12) = parts.p12.ok_or(CertsProblem::NoIdentity)?;
    let (name, password) = parts.password.ok_or(CertsProblem::NoPassword)?;
    let text = str::from_utf8(&password).map_err(|_| CertsProblem::PasswordNotText(shown(name.as_bytes())))?;
    let text = text.strip_suffix('\n').map_or(text, |text| text.strip_suffix('\r').unwrap_or(text));
    let secret = |(name, bytes)| (name, Secret(bytes));
    Ok(Certs {
        p12: Secret(p12),
        p12_password: Secret(Zeroizing::new(text.to_owned())),
        provisioning_profiles: parts.profiles.into_iter().map(secret).collect(),
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Identity,
    Password,
    Profile,
}

fn part_of(path: &str) -> Option<Part> {
    let name = path.rsplit('/').next().unwrap_or(path).to_lowercase();
    // A Mac puts a shadow of each file into its zips, with the same ending.
    if path.starts_with("__MACOSX/") || name.starts_with("._") {
        return None;
    }
    if name.ends_with(".p12") {
        Some(Part::Identity)
    } else if name == "password.txt" || name == "p12_password" || name.ends_with(".password") {
        Some(Part::Password)
    } else if name.ends_with(".mobileprovision") || name.ends_with(".provisionprofile") {
        Some(Part::Profile)
    } else {
        None
    }
}

type Named = (String, Zeroizing<Vec<u8>>);

/// The sink that keeps the parts in memory.
#[derive(Default)]
struct Parts {
    p12: Option<Named>,
    password: Option<Named>,
    profiles: Vec<Named>,
}

impl Sink for Parts {
    type File = Option<(Part, Named)>;

    fn directory(&mut self, _path: &str) -> Result<(), Error> {
        Ok(())
    }

    fn begin_file(&mut self, path: &str, _is_executable: bool, bytes: u64) -> Result<Self::File, Error> {
        // All room at once: a vector that grows leaves copies behind that nobody overwrites. What the file says of its
        // size was counted against the limits before, in the first pass.
        let room = usize::try_from(bytes.min(CERTS_BYTES_MAX)).unwrap_or_default();
        Ok(part_of(path).map(|part| (part, (path.to_owned(), Zeroizing::new(Vec::with_capacity(room))))))
    }

    fn write(&mut self, file: &mut Self::File, bytes: &[u8]) -> Result<(), Error> {
        if let Some((_, (_, content))) = file {
            content.extend_from_slice(bytes);
        }
        Ok(())
    }

    fn end_file(&mut self, file: Self::File) -> Result<(), Error> {
        let Some((part, named)) = file else {
            return Ok(());
        };
        let both = |first: &Named, second: &Named| (shown(first.0.as_bytes()), shown(second.0.as_bytes()));
        match part {
            Part::Profile => self.profiles.push(named),
            Part::Identity => {
                if let Some((first, second)) = self.p12.as_ref().map(|first| both(first, &named)) {
                    return Err(CertsProblem::TwoIdentities(first, second).into());
                }
                self.p12 = Some(named);
            }
            Part::Password => {
                if let Some((first, second)) = self.password.as_ref().map(|first| both(first, &named)) {
                    return Err(CertsProblem::TwoPasswords(first, second).into());
                }
                self.password = Some(named);
            }
        }
        Ok(())
    }

    fn hard_link(&mut self, _path: &str, _target: &str) -> Result<(), Error> {
        Ok(())
    }

    fn symbolic_link(&mut self, _path: &str, _target: &str) -> Result<(), Error> {
        Ok(())
    }
}
