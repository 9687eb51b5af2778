//! Sums of single pieces, as the checksum extension of tus wants them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// The sum a client announced for a piece.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checksum {
    algorithm: Algorithm,
    sum: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Algorithm {
    /// Weak, but every server has to know it.
    Sha1,
    Sha256,
}

/// What clients may use, as `Tus-Checksum-Algorithm` says it.
pub(super) const ALGORITHMS: &str = "sha1,sha256";

impl Checksum {
    /// Reads `Upload-Checksum`: an algorithm, and its sum in base64.
    pub fn parse(text: &str) -> Option<Checksum> {
        let (algorithm, sum) = text.trim().split_once(' ')?;
        let (algorithm, length) = match algorithm {
            "sha1" => (Algorithm::Sha1, 20),
            "sha256" => (Algorithm::Sha256, 32),
            _ => return None,
        };
        let sum = BASE64.decode(sum.trim()).ok()?;
        (sum.len() == length).then_some(Checksum { algorithm, sum })
    }

    pub(super) fn begin(self) -> Checking {
        let hasher = match self.algorithm {
            Algorithm::Sha1 => Hasher::Sha1(Sha1::new()),
            Algorithm::Sha256 => Hasher::Sha256(Sha256::new()),
        };
        Checking { hasher, sum: self.sum }
    }
}

/// A sum that is being checked.
pub(super) struct Checking {
    hasher: Hasher,
    sum: Vec<u8>,
}

enum Hasher {
    Sha1(Sha1),
    Sha256(Sha256),
}

impl Checking {
    pub fn update(&mut self, batch: &[u8]) {
        match &mut self.hasher {
            Hasher::Sha1(hasher) => hasher.update(batch),
            Hasher::Sha256(hasher) => hasher.update(batch),
        }
    }

    pub fn holds(self) -> bool {
        match self.hasher {
            Hasher::Sha1(hasher) => hasher.finalize()[..] == self.sum[..],
            Hasher::Sha256(hasher) => hasher.finalize()[..] == self.sum[..],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_read_and_checked() {
        let hello = "sha1 qvTGHdzF6KLavt4PO0gs2a6pQ00=";
        for (piece, holds) in [("hello", true), ("hallo", false)] {
            let mut checking = Checksum::parse(hello).unwrap().begin();
            checking.update(piece.as_bytes());
            assert_eq!(checking.holds(), holds);
        }
        for wrong in ["", "sha1", "sha1 x", "md5 qvTGHdzF6KLavt4PO0gs2a6pQ00=", "sha256 qvTGHdzF6KLavt4PO0gs2a6pQ00="] {
            assert_eq!(Checksum::parse(wrong), None, "{wrong}");
        }
    }
}
