//! Payloads that are kept elsewhere: what stands for them in a row.
//!
//! A reference has a fixed length and begins with bytes that no text begins with. Servers refuse a payload of a user that begins so, and
//! every reference is signed with the installation's secret. So whatever opens as a reference was written by a server, for the row it is
//! in.

use subtle::ConstantTimeEq;
use uuid::Uuid;

use crate::token::{self, TokenKey};

/// How every reference begins. 0xff is in no UTF-8 text, and so in no JSON.
pub const MARK: [u8; 16] = *b"\xff\xfebaton payload\n";
/// How every sealed payload begins: one that was encrypted before it came to the store.
pub const SEALED_MARK: [u8; 16] = *b"\xff\xfebaton sealed\n\x01";
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
    /// Which generation of the installation's secret has signed this.
    pub generation: u32,
}

/// The size and, in its highest bits, the generation, which is 0 where nobody knew of generations.
const SIZE_BITS: u32 = 48;

impl Reference {
    /// As it stands in a row.
    pub fn write(&self, key: &TokenKey) -> Vec<u8> {
        let said = Reference { generation: key.generation(), ..*self }.said();
        [&MARK[..], &said, &token::payload(key, &said)].concat()
    }

    fn said(&self) -> [u8; SAID_BYTES] {
        let mut said = [0; SAID_BYTES];
        said[..16].copy_from_slice(self.id.as_bytes());
        let size = self.size | u64::from(self.generation) << SIZE_BITS;
        said[16..24].copy_from_slice(&size.to_be_bytes());
        said[24..].copy_from_slice(&self.sha256);
        said
    }

    /// Checks that one of our servers has written what was read as this, with this key; anything else is no reference.
    pub fn is_signed(&self, key: &TokenKey, kept: &[u8]) -> bool {
        let mac = &kept[MARK.len() + SAID_BYTES..];
        key.generation() == self.generation && bool::from(token::payload(key, &self.said()).ct_eq(mac))
    }

    /// Reads what has the form of a reference, to count with. Nothing may be fetched for it.
    pub fn read(kept: &[u8]) -> Option<Reference> {
        let said = kept.strip_prefix(&MARK).filter(|_| kept.len() == REFERENCE_BYTES)?;
        let (id, rest) = said.split_first_chunk::<16>()?;
        let (size, rest) = rest.split_first_chunk::<8>()?;
        let (sha256, _) = rest.split_first_chunk::<32>()?;
        let size = u64::from_be_bytes(*size);
        Some(Reference {
            id: Uuid::from_bytes(*id),
            size: size & ((1 << SIZE_BITS) - 1),
            sha256: *sha256,
            generation: (size >> SIZE_BITS) as u32,
        })
    }
}

/// True when this must be refused as a payload, because it begins as a reference or a sealed payload does.
pub fn looks_like_a_reference(payload: &[u8]) -> bool {
    payload.starts_with(&MARK) || is_sealed(payload)
}

/// True when this is a payload that one of our servers has sealed: nobody else can bring one.
pub fn is_sealed(kept: &[u8]) -> bool {
    kept.starts_with(&SEALED_MARK)
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

    fn key(generation: u32) -> TokenKey {
        TokenKey::new(generation, b"an installation's secret")
    }

    fn reference() -> Reference {
        Reference { id: Uuid::from_bytes([7; 16]), size: 10 << 20, sha256: [9; 32], generation: 3 }
    }

    fn open(key: &TokenKey, kept: &[u8]) -> Option<Reference> {
        Reference::read(kept).filter(|reference| reference.is_signed(key, kept))
    }

    #[test]
    fn a_reference_comes_back_and_has_the_length_that_the_indexes_know() {
        let kept = reference().write(&key(3));
        assert_eq!((kept.len(), REFERENCE_BYTES, kept[0]), (88, 88, 0xff));
        assert_eq!(open(&key(3), &kept), Some(reference()));
        assert_eq!((size(&kept), size(b"{}")), (10 << 20, 2));
        assert_eq!(open(&key(4), &kept), None, "another generation");
        let oldest = Reference { generation: 0, ..reference() };
        assert_eq!(open(&key(0), &oldest.write(&key(0))), Some(oldest));
        let newest = Reference { generation: token::GENERATION_MAX, ..reference() };
        assert_eq!(open(&key(token::GENERATION_MAX), &newest.write(&key(token::GENERATION_MAX))), Some(newest));
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
        let kept = reference().write(&TokenKey::new(3, b"another secret"));
        assert_eq!(open(&key(3), &kept), None);
        let good = reference().write(&key(3));
        for at in 0..good.len() {
            let mut forged = good.clone();
            forged[at] ^= 1;
            assert_eq!(open(&key(3), &forged), None, "byte {at}");
        }
        for wrong in [&good[..87], &[&good[..], b"x"].concat(), b"", b"{}", &MARK] {
            assert_eq!(open(&key(3), wrong), None);
        }
    }
}
