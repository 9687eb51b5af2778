//! Credentials. Random ones are stored as hashes; lease tokens are derived, so that nothing is stored at all.
//!
//! Every credential has a prefix that says what it is, so that one that leaks can be recognised.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::{Epoch, RunId};

/// Prefix of an API key.
pub const API_KEY_PREFIX: &str = "bk_";
/// Prefix of a lease token.
pub const LEASE_PREFIX: &str = "bl_";
/// Shortest API key a person may choose for themselves, in characters.
pub const API_KEY_LENGTH_MIN: usize = 16;

/// The hash of a credential, which is all that is kept of it.
pub type Hash = [u8; 32];

/// Makes an API key from 160 random bits.
pub fn api_key(random: [u8; 20]) -> String {
    format!("{API_KEY_PREFIX}{}", base32(&random))
}

/// The hash under which a credential is stored. The credentials are long and random, so a plain hash is enough.
pub fn hash(credential: &str) -> Hash {
    Sha256::digest(credential.as_bytes()).into()
}

/// Compares two hashes in constant time.
pub fn same(left: &Hash, right: &Hash) -> bool {
    left.ct_eq(right).into()
}

/// The token that proves a claim: `bl_<epoch>_<mac>`. It is derived from the installation's secret, the run and the
/// epoch, so every server can check it and a later claim makes it stale.
pub fn lease(secret: &[u8], run: RunId, epoch: Epoch) -> String {
    format!("{LEASE_PREFIX}{epoch}_{}", base32(&lease_mac(secret, run, epoch)))
}

/// Reads the epoch from a lease token of this run, or `None` when the token is not one of ours.
pub fn open_lease(secret: &[u8], run: RunId, token: &str) -> Option<Epoch> {
    let (epoch, mac) = token.strip_prefix(LEASE_PREFIX)?.split_once('_')?;
    let epoch = Epoch(epoch.parse().ok()?);
    let expected = base32(&lease_mac(secret, run, epoch));
    bool::from(expected.as_bytes().ct_eq(mac.as_bytes())).then_some(epoch)
}

fn lease_mac(secret: &[u8], run: RunId, epoch: Epoch) -> [u8; 16] {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    mac.update(b"lease");
    mac.update(run.0.as_bytes());
    mac.update(&epoch.0.to_be_bytes());
    let mut short = [0; 16];
    short.copy_from_slice(&mac.finalize().into_bytes()[..16]);
    short
}

/// Lower-case base 32 without the letters that look like digits (Crockford's alphabet).
fn base32(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let mut text = String::with_capacity(bytes.len() * 8 / 5 + 1);
    let (mut buffer, mut bits) = (0u32, 0);
    for byte in bytes {
        buffer = buffer << 8 | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(ALPHABET[(buffer >> bits & 31) as usize] as char);
        }
    }
    if bits > 0 {
        text.push(ALPHABET[(buffer << (5 - bits) & 31) as usize] as char);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"an installation's secret";

    #[test]
    fn a_lease_opens_only_its_own_run_and_epoch() {
        let run = RunId::new(1_000, 1, 1);
        let token = lease(SECRET, run, Epoch(7));
        assert!(token.starts_with("bl_7_"));
        assert_eq!(open_lease(SECRET, run, &token), Some(Epoch(7)));
        assert_eq!(open_lease(SECRET, RunId::new(1_000, 2, 1), &token), None);
        assert_eq!(open_lease(b"another", run, &token), None);
        assert_eq!(open_lease(SECRET, run, &token.replace("bl_7_", "bl_8_")), None);
        for broken in ["", "bl_", "bl_7", "bl_7_", "bl_x_y", "bl_-1_a", "bl_99999999999_a"] {
            assert_eq!(open_lease(SECRET, run, broken), None, "{broken}");
        }
    }

    #[test]
    fn keys_are_prefixed_and_hashed() {
        let key = api_key([255; 20]);
        assert_eq!(key, format!("bk_{}", "z".repeat(32)));
        assert!(same(&hash(&key), &hash(&key)));
        assert!(!same(&hash(&key), &hash("bk_other")));
    }
}
