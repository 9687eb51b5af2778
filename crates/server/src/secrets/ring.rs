//! The generations of the installation's secret, opened: what tokens, seals and signatures are made with.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton_core::Millis;
use baton_core::payload::Reference;
use baton_core::token::{self, TokenKey};
use baton_store::{StoredSecrets, WrappedSecret};
use chacha20poly1305::XChaCha20Poly1305;
use zeroize::Zeroizing;

use super::payloads::{Tag, derived};
use super::source::MasterKeys;
use crate::artifacts::{Seal, Seals};
use crate::entropy::Entropy;

/// Most namespaces whose keys are remembered; beyond it the memory starts anew.
const PAYLOAD_KEYS_MAX: usize = 10_000;

/// One generation. What is derived from it is derived once.
pub struct Generation {
    /// As the store has it.
    pub(super) stored: WrappedSecret,
    pub(super) secret: Zeroizing<[u8; 32]>,
    /// Tokens are derived from it.
    pub tokens: TokenKey,
    /// Files are sealed with it.
    pub seal: Seal,
    /// Payloads of namespaces are sealed with these, made on first use.
    payload_keys: Mutex<HashMap<Tag, XChaCha20Poly1305>>,
    /// When its tokens end, on this machine's clock.
    ends: Option<Instant>,
}

impl fmt::Debug for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stored.fmt(f)
    }
}

impl Generation {
    fn new(stored: WrappedSecret, secret: Zeroizing<[u8; 32]>, now: Millis, entropy: &Arc<dyn Entropy>) -> Generation {
        let number = stored.generation;
        let left = stored.tokens_until.map(|until| Duration::from_millis(until.saturating_sub(now).max(0) as u64));
        Generation {
            tokens: TokenKey::new(number, &*secret),
            seal: Seal::new(number, &secret, entropy.clone()),
            payload_keys: Mutex::default(),
            // One that is too far away to be reckoned with never comes.
            ends: left.and_then(|left| Instant::now().checked_add(left)),
            secret,
            stored,
        }
    }

    /// The key of a namespace.
    pub(super) fn payload_key(&self, tag: Tag) -> XChaCha20Poly1305 {
        let mut keys = self.payload_keys.lock().expect("nobody panics while holding it");
        if keys.len() > PAYLOAD_KEYS_MAX {
            keys.clear();
        }
        keys.entry(tag).or_insert_with(|| derived(&self.secret, b"baton: payloads of the namespace ", &tag)).clone()
    }

    /// Which one it is.
    pub fn number(&self) -> u32 {
        self.stored.generation
    }

    /// The public name of the master key that it is wrapped with.
    pub fn key_id(&self) -> &str {
        &self.stored.key_id
    }

    /// Whether tokens of this generation are good now.
    pub fn are_tokens_good(&self) -> bool {
        self.ends.is_none_or(|ends| Instant::now() < ends)
    }
}

/// All generations that this server can open. There is always one.
#[derive(Debug)]
pub struct Ring {
    pub(super) generations: BTreeMap<u32, Arc<Generation>>,
}

impl Ring {
    /// Opens what can be opened, with what was open before at hand. The rest is named: generation and master key.
    pub(super) fn open(
        stored: &StoredSecrets,
        keys: &MasterKeys,
        before: Option<&Ring>,
        entropy: &Arc<dyn Entropy>,
    ) -> (Ring, Vec<(u32, String)>) {
        let (mut generations, mut closed) = (BTreeMap::new(), Vec::new());
        for wrapped in &stored.generations {
            let number = wrapped.generation;
            let same = |known: &&Arc<Generation>| known.stored.made_at == wrapped.made_at;
            let known = before.and_then(|ring| ring.generations.get(&number)).filter(same);
            let secret = keys.get(&wrapped.key_id).and_then(|key| key.open(number, &wrapped.wrapped));
            if secret.is_none() {
                closed.push((number, wrapped.key_id.clone()));
            }
            let secret = secret.or_else(|| known.map(|known| known.secret.clone()));
            if let Some(secret) = secret {
                generations.insert(number, Arc::new(Generation::new(wrapped.clone(), secret, stored.now, entropy)));
            }
        }
        (Ring { generations }, closed)
    }

    /// What everything new is made with.
    pub fn newest(&self) -> &Generation {
        self.generations.last_key_value().map(|(_, newest)| newest).expect("there is always one")
    }

    /// What was the newest at this moment, if it is good for tokens: whatever is asked for again is asked for in the same
    /// words, although there is a newer one meanwhile.
    pub fn as_of(&self, at: Millis) -> &Generation {
        let was_there = |generation: &&Arc<Generation>| generation.stored.made_at <= at && generation.are_tokens_good();
        self.generations.values().rev().find(was_there).map_or_else(|| self.newest(), AsRef::as_ref)
    }

    /// One generation, whether its tokens are good or not.
    pub fn get(&self, number: u32) -> Option<&Generation> {
        self.generations.get(&number).map(AsRef::as_ref)
    }

    /// Reads a token with the key of the generation that it names, if that is still good.
    pub fn open_token<T>(&self, shown: &str, open: impl FnOnce(&TokenKey) -> Option<T>) -> Option<T> {
        let generation = self.get(token::generation_of(shown)).filter(|generation| generation.are_tokens_good())?;
        open(&generation.tokens)
    }

    /// Reads a reference to a payload that one of our servers has written; anything else is no reference. References stay
    /// good: who could put one into a row has no need to.
    pub fn reference(&self, kept: &[u8]) -> Option<Reference> {
        let reference = Reference::read(kept)?;
        let generation = self.get(reference.generation)?;
        reference.is_signed(&generation.tokens, kept).then_some(reference)
    }

    /// True when another server may have made something with a generation that this one does not know.
    pub fn lacks(&self, generation: u32) -> bool {
        generation > self.newest().number()
    }
}

impl Seals for Ring {
    fn of(&self, generation: u32) -> Option<&Seal> {
        self.get(generation).map(|generation| &generation.seal)
    }
}
