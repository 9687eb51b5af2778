//! Payloads that are kept elsewhere: what stands for them in a row.
//!
//! A reference has a fixed length and begins with bytes that no text begins with. Servers refuse a payload of a user that begins so, and
//! every reference is signed with the installation's secret. So whatever opens as a reference was written by a server, for the row it is
//! in.

use subtle::ConstantTimeEq;
use uuid::Uuid;

use crate::token;

/// How every reference begins. 0xff is in no UTF-8 text, and so in no JSON.
pub const MARK: [u8; 16] = *b"\xff\xfebaton payload\n";
/// How long every reference is. The indexes of the stores know it, too.
pub const REFERENCE_BYTES: usize = MARK.len() + SAID_BYTES + MAC_BYTES;

const SAID_BYTES: usize = 16 + 8 + 32;
const MAC_BYTES: usize = 16;

/// What a row says of a payload that is kept elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reference {
    /// Its name.
    pub id: Uuid,
    /// In bytes.
    pub size: u64,
    /// The SHA-256 sum of it.
    pub sha256: [u8; 32],
}

impl Reference {
    /// As it stands in a row.
    pub fn write(&self, secret: &[u8]) -> Vec<u8> {
        let said = self.said();
        [&MARK[..], &said, &token::payload(secret, &said)].concat()
    }

    fn said(&self) -> [u8; SAID_BYTES] {
        let mut said = [0; SAID_BYTES];
        said[..16].copy_from_slice(self.id.as_bytes());
        said[16..24].copy_from_slice(&self.size.to_be_bytes());
        said[24..].copy_from_slice(&self.sha256);
        said
    }

    /// Reads a reference that one of our servers has written with this secret; anything else is no reference.
    pub fn open(secret: &[u8], kept: &[u8]) -> Option<Reference> {
        let reference = Reference::read(kept)?;
        let mac = &kept[MARK.len() + SAID_BYTES..];
        bool::from(token::payload(secret, &reference.said()).ct_eq(mac)).then_some(reference)
    }

    /// Reads what has the form of a reference, to count with. Nothing may be fetched for it.
    pub fn read(kept: &[u8]) -> Option<Reference> {
        let said = kept.strip_prefix(&MARK).filter(|_| kept.len() == REFERENCE_BYTES)?;
        let (id, rest) = said.split_first_chunk::<16>()?;
        let (size, rest) = rest.split_first_chunk::<8>()?;
        let (sha256, _) = rest.split_first_chunk::<32>()?;
        Some(Reference { id: Uuid::from_bytes(*id), size: u64::from_be_bytes(*size), sha256: *sha256 })
    }
}

/// True when this must be refused as a payload, because it begins as a reference does.
pub fn looks_like_a_reference(payload: &[u8]) -> bool {
    payload.starts_with(&MARK)
}

/// True when arrays and objects are deeper in each other than this, if the payload is JSON. Bytes
/// that are not JSON may seem to be. A look at each byte, and none at payloads that are too short
/// to be that deep.
pub fn seems_deeper_than(payload: &[u8], limit: usize) -> bool {
    let first = payload.iter().find(|byte| !byte.is_ascii_whitespace());
    if payload.len() <= limit || !matches!(first, Some(b'[' | b'{')) {
        return false;
    }
    let mut depth = 0_usize;
    let mut bytes = payload.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => {
                depth += 1;
                if depth > limit {
                    return true;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => {
                // What is in a text is not structure.
                while let Some(byte) = bytes.next() {
                    match byte {
                        b'"' => break,
                        b'\\' => drop(bytes.next()),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    false
}

/// How large a payload is, wherever it is kept.
pub fn size(kept: &[u8]) -> u64 {
    Reference::read(kept).map_or(kept.len() as u64, |reference| reference.size)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"an installation's secret";

    fn reference() -> Reference {
        Reference { id: Uuid::from_bytes([7; 16]), size: 10 << 20, sha256: [9; 32] }
    }

    #[test]
    fn a_reference_comes_back_and_has_the_length_that_the_indexes_know() {
        let kept = reference().write(SECRET);
        assert_eq!((kept.len(), REFERENCE_BYTES, kept[0]), (88, 88, 0xff));
        assert_eq!(Reference::open(SECRET, &kept), Some(reference()));
        assert_eq!((size(&kept), size(b"{}")), (10 << 20, 2));
        assert!(std::str::from_utf8(&kept).is_err() && looks_like_a_reference(&kept));
    }

    #[test]
    fn depth_is_that_of_arrays_and_objects_and_not_of_text() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        for limit in [1, 2, 128] {
            assert!(!seems_deeper_than(nested(limit).as_bytes(), limit));
            assert!(seems_deeper_than(nested(limit + 1).as_bytes(), limit));
            assert!(seems_deeper_than(format!(" {{\"a\":{}}}", nested(limit)).as_bytes(), limit));
        }
        assert!(!seems_deeper_than(format!("[\"{}\\\"{}\",[]]", "[".repeat(500), "[".repeat(500)).as_bytes(), 2));
        assert!(!seems_deeper_than(format!("[{}[]]", "[],".repeat(500)).as_bytes(), 2));
        assert!(!seems_deeper_than("x[[[[[[".as_bytes(), 2), "this is no JSON");
        assert!(seems_deeper_than("[".repeat(2_000_000).as_bytes(), 128));
    }

    #[test]
    fn what_somebody_made_up_is_no_reference() {
        let kept = reference().write(b"another secret");
        assert_eq!(Reference::open(SECRET, &kept), None);
        let good = reference().write(SECRET);
        for at in 0..good.len() {
            let mut forged = good.clone();
            forged[at] ^= 1;
            assert_eq!(Reference::open(SECRET, &forged), None, "byte {at}");
        }
        for wrong in [&good[..87], &[&good[..], b"x"].concat(), b"", b"{}", &MARK] {
            assert_eq!(Reference::open(SECRET, wrong), None);
        }
    }
}
