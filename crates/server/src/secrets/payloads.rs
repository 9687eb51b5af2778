//! Payloads that are encrypted before they come to the store.
//!
//! A sealed payload carries what is needed to open it: the store copies payloads from row to row, to other runs and to parents, and knows
//! nothing of this.
//!
//! ```text
//! "\\xff\\xfebaton sealed\\n\\x01"  generation (4)  tag of the namespace (16)  nonce (24)  payload (+ 16)
//! ```

use baton_core::payload::{SEALED_MARK, is_sealed};
use bytes::Bytes;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use hkdf::Hkdf;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::ring::Ring;
use crate::entropy::Entropy;

/// What stands for a namespace in its payloads: it need not be named where nobody else is to know of it.
pub(super) type Tag = [u8; 16];

const GENERATION: usize = 4;
const TAG: usize = 16;
const NONCE: usize = 24;
/// What is in front, and what the rest is bound to.
const HEAD: usize = SEALED_MARK.len() + GENERATION + TAG;

/// A key that is derived from a secret for one purpose, and one namespace.
pub(super) fn derived(secret: &[u8; 32], purpose: &[u8], tag: &Tag) -> XChaCha20Poly1305 {
    let mut key = Zeroizing::new([0; 32]);
    let info = [purpose, &tag[..]];
    Hkdf::<Sha256>::new(None, secret).expand_multi_info(&info, &mut *key).expect("32 bytes are fewer than 255 hashes");
    XChaCha20Poly1305::new(&Key::from(*key))
}

fn tag_of(namespace: &str) -> Tag {
    let sum = Sha256::new().chain_update(b"baton namespace\n").chain_update(namespace).finalize();
    let mut tag = [0; TAG];
    tag.copy_from_slice(&sum[..TAG]);
    tag
}

/// The generation that a sealed payload names.
pub(super) fn generation_of(kept: &[u8]) -> Option<u32> {
    let (number, _) = kept.strip_prefix(&SEALED_MARK)?.split_first_chunk::<GENERATION>()?;
    Some(u32::from_be_bytes(*number))
}

impl Ring {
    /// Seals a payload of a namespace with the newest generation.
    pub fn seal_payload(&self, namespace: &str, payload: &[u8], entropy: &dyn Entropy) -> Bytes {
        let (newest, tag) = (self.newest(), tag_of(namespace));
        let mut nonce = [0; NONCE];
        entropy.fill(&mut nonce);
        let head = [&SEALED_MARK[..], &newest.number().to_be_bytes(), &tag].concat();
        let sealed = newest.payload_key(tag).encrypt(&XNonce::from(nonce), Payload { msg: payload, aad: &head });
        let sealed = sealed.expect("payloads are smaller than what can be encrypted");
        Bytes::from([&head[..], &nonce, &sealed].concat())
    }

    /// Opens a sealed payload. None when it was changed, or the generation is gone that it was sealed with.
    pub fn open_payload(&self, kept: &[u8]) -> Option<Bytes> {
        let generation = self.get(generation_of(kept).filter(|_| is_sealed(kept))?)?;
        let (head, rest) = kept.split_at_checked(HEAD)?;
        let tag = head.last_chunk::<TAG>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE>()?;
        let plain = generation.payload_key(*tag).decrypt(&XNonce::from(*nonce), Payload { msg: sealed, aad: head });
        plain.ok().map(Bytes::from)
    }

    /// What is kept of a submission's fingerprint where payloads are sealed: a plain one would let anybody try inputs.
    /// Made with the oldest generation that nobody has seen in plain, so that a rotation changes nothing.
    pub fn keyed_fingerprint(&self, fingerprint: [u8; 16]) -> [u8; 16] {
        let oldest = self.generations.values().find(|generation| generation.number() > 0);
        let secret = oldest.map_or(&self.newest().secret, |generation| &generation.secret);
        let mut keyed = [0; 16];
        Hkdf::<Sha256>::new(None, &secret[..])
            .expand_multi_info(&[b"baton: fingerprint of a submission ", &fingerprint], &mut keyed)
            .expect("16 bytes are fewer than 255 hashes");
        keyed
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use baton_store::{StoredSecrets, WrappedSecret};

    use super::super::source::{MasterKey, MasterKeys};
    use super::*;
    use crate::entropy::SeededEntropy;

    fn ring(generations: &[u32]) -> Ring {
        let (dice, entropy) = (SeededEntropy::new(5), Arc::new(SeededEntropy::new(6)));
        let key = MasterKey::fresh(&dice);
        let wrapped = |number: &u32| WrappedSecret {
            generation: *number,
            wrapped: key.wrap(*number, &[*number as u8 + 1; 32], &dice),
            key_id: key.id.clone(),
            made_at: 0,
            tokens_until: None,
        };
        let generations = generations.iter().map(wrapped).collect();
        let stored = StoredSecrets { plain: None, installation: None, generations, now: 0 };
        let (ring, closed) =
            Ring::open(&stored, &MasterKeys::with_first(key.clone(), None), None, &(entropy as Arc<dyn Entropy>));
        assert!(closed.is_empty());
        ring
    }

    #[test]
    fn a_sealed_payload_opens_with_its_generation_and_every_change_is_noticed() {
        let (before, after) = (ring(&[0, 1]), ring(&[0, 1, 2]));
        let dice = SeededEntropy::new(7);
        let sealed = before.seal_payload("vault", b"a payload", &dice);
        assert!(is_sealed(&sealed) && !sealed.windows(9).any(|window| window == b"a payload"));
        assert_ne!(
            sealed,
            before.seal_payload("vault", b"a payload", &dice),
            "the same one looks another way each time"
        );
        assert_eq!(generation_of(&sealed), Some(1));
        assert_eq!(after.open_payload(&sealed).as_deref(), Some(&b"a payload"[..]), "also after a rotation");
        let newer = after.seal_payload("vault", b"a payload", &dice);
        assert_eq!((generation_of(&newer), before.open_payload(&newer)), (Some(2), None));
        for at in 0..sealed.len() {
            let mut forged = sealed.to_vec();
            forged[at] ^= 1;
            assert_eq!(after.open_payload(&forged), None, "byte {at}");
            assert_eq!(after.open_payload(&sealed[..at]), None, "cut off at {at}");
        }
    }

    #[test]
    fn a_fingerprint_is_the_same_after_a_rotation_and_none_that_others_can_make() {
        let [old, upgraded, rotated] = [&[1][..], &[0, 1], &[0, 1, 2]].map(ring);
        let keyed = old.keyed_fingerprint([9; 16]);
        assert_ne!(keyed, [9; 16]);
        assert_eq!([upgraded.keyed_fingerprint([9; 16]), rotated.keyed_fingerprint([9; 16])], [keyed, keyed]);
        assert_ne!(old.keyed_fingerprint([8; 16]), keyed);
    }
}
