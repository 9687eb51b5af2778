//! SHA-256 sums: as text, and as clients announce them.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::HeaderMap;
use sha2::{Digest, Sha256};

use crate::Error;

/// A SHA-256 sum. Its text is 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha256Sum(pub [u8; 32]);

impl Sha256Sum {
    /// The sum of these bytes.
    pub fn of(bytes: &[u8]) -> Sha256Sum {
        Sha256Sum(Sha256::digest(bytes).into())
    }

    /// As `Content-Digest` and `Repr-Digest` carry it (RFC 9530).
    pub fn as_field(&self) -> String {
        format!("sha-256=:{}:", BASE64.encode(self.0))
    }
}

impl fmt::Display for Sha256Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Sha256Sum {
    type Err = ();

    fn from_str(text: &str) -> Result<Sha256Sum, ()> {
        let text = text.as_bytes();
        // Only digits: the numbers' own parser would take a sign.
        if text.len() != 64 || !text.iter().all(u8::is_ascii_hexdigit) {
            return Err(());
        }
        let mut sum = [0; 32];
        for (byte, digits) in sum.iter_mut().zip(text.chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| ())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| ())?;
        }
        Ok(Sha256Sum(sum))
    }
}

/// The sum a client announced for the bytes it sends, in `Content-Digest` (RFC 9530) or `X-Checksum-Sha256` (hexadecimal or
/// base64). Algorithms we do not know are passed over, as the RFC wants; what cannot be read is refused, because a client that
/// sends it believes it is checked.
pub fn announced(headers: &HeaderMap) -> Result<Option<Sha256Sum>, Error> {
    let mut found: Option<Sha256Sum> = None;
    let mut add = |sum: Sha256Sum| match found.replace(sum) {
        Some(other) if other != sum => Err(Error::Malformed("the announced SHA-256 sums contradict each other".into())),
        _ => Ok(()),
    };
    for value in headers.get_all("content-digest") {
        let wrong = || Error::Malformed("Content-Digest must look like sha-256=:<base64>:".into());
        for member in value.to_str().map_err(|_| wrong())?.split(',') {
            let (algorithm, value) = member.trim().split_once('=').ok_or_else(wrong)?;
            if algorithm.trim().eq_ignore_ascii_case("sha-256") {
                let inner = value.trim().strip_prefix(':').and_then(|rest| rest.strip_suffix(':')).ok_or_else(wrong)?;
                add(from_base64(inner).ok_or_else(wrong)?)?;
            }
        }
    }
    if let Some(value) = headers.get("x-checksum-sha256") {
        let wrong = || Error::Malformed("X-Checksum-Sha256 must be 64 hexadecimal digits".into());
        let text = value.to_str().map_err(|_| wrong())?.trim();
        add(text.parse().ok().or_else(|| from_base64(text)).ok_or_else(wrong)?)?;
    }
    Ok(found)
}

/// Reads a sum in base64.
pub(super) fn from_base64(text: &str) -> Option<Sha256Sum> {
    BASE64.decode(text).ok()?.try_into().ok().map(Sha256Sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const EMPTY_FIELD: &str = "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:";

    fn read(fields: &[(&'static str, &str)]) -> Result<Option<Sha256Sum>, Error> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().unwrap());
        }
        announced(&headers)
    }

    #[test]
    fn sums_are_read_as_they_are_written() {
        let sum = Sha256Sum::of(b"");
        assert_eq!(sum.to_string(), EMPTY);
        assert_eq!(sum.as_field(), EMPTY_FIELD);
        assert_eq!(EMPTY.parse(), Ok(sum));
        assert_eq!(EMPTY.to_uppercase().parse(), Ok(sum));
        assert_eq!("+1".repeat(32).parse::<Sha256Sum>(), Err(()));
        assert_eq!(EMPTY[1..].parse::<Sha256Sum>(), Err(()));
    }

    #[test]
    fn announced_sums_are_found_in_either_field() {
        let sum = Some(Sha256Sum::of(b""));
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[("content-digest", EMPTY_FIELD)]), Ok(sum));
        assert_eq!(read(&[("content-digest", &format!("md5=:AAAA:, {EMPTY_FIELD}"))]), Ok(sum));
        assert_eq!(read(&[("x-checksum-sha256", EMPTY)]), Ok(sum));
        assert_eq!(read(&[("x-checksum-sha256", &EMPTY_FIELD[9..53])]), Ok(sum));
        assert_eq!(read(&[("x-checksum-sha256", EMPTY), ("content-digest", EMPTY_FIELD)]), Ok(sum));
        assert_eq!(read(&[("content-digest", "sha-512=:AAAA:")]), Ok(None));
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        let other = Sha256Sum::of(b"x").to_string();
        for fields in [
            &[("content-digest", "sha-256=abc")][..],
            &[("content-digest", "sha-256=:AAAA:")],
            &[("content-digest", "nonsense")],
            &[("x-checksum-sha256", "zz")],
            &[("x-checksum-sha256", &other), ("content-digest", EMPTY_FIELD)],
        ] {
            assert!(matches!(read(fields), Err(Error::Malformed(_))), "{fields:?}");
        }
    }
}
