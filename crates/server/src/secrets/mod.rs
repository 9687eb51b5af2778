//! The installation's secret, from which tokens, seals and signatures are derived.
//!
//! It comes in generations. The store has each of them wrapped with a master key, which is not in the store
//! ([`source::MasterKeySource`]); the newest makes everything new, and those before it open what they have made. A copy of
//! the database is worth nothing without the master key. docs/adr/0025 has the reasons.

mod payloads;
mod ring;
mod source;
mod webhooks;

use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use baton_core::payload::Reference;
use baton_core::token::{self, TokenKey};
use baton_core::{Millis, token::GENERATION_MAX};
use baton_store::{AuditEntry, SecretsChange, Store, StoredSecrets, WrappedSecret};
use sha2::{Digest, Sha256};
use tokio::sync::Mutex as AsyncMutex;
use zeroize::Zeroizing;

pub use ring::{Generation, Ring};
pub use source::{MASTER_KEY_FILE, MASTER_KEY_VARIABLE, MasterKey, MasterKeySource, MasterKeys, mode_too_wide};

use crate::entropy::Entropy;
use crate::{Error, crash};

/// How long tokens of the generation before stay good unless somebody says otherwise.
pub const OVERLAP_MS: Millis = 7 * 24 * 60 * 60 * 1_000;
/// Shortest pause between two looks at the store that tokens of unknown generations bring about: anybody can make one up.
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// How often a change is tried anew because another server was faster.
const TRIES_MAX: usize = 10;

/// What this server knows of the installation's secret.
#[derive(Debug)]
pub struct Secrets {
    store: Arc<dyn Store>,
    source: MasterKeySource,
    entropy: Arc<dyn Entropy>,
    installation: String,
    ring: RwLock<Arc<Ring>>,
    /// The keys as they were last read.
    keys: Mutex<MasterKeys>,
    /// What somebody has to do something about.
    trouble: Mutex<Option<String>>,
    /// When the last look began. Whoever holds it looks.
    looking: AsyncMutex<Option<Instant>>,
}

/// What a rotation did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rotated {
    /// The new generation.
    pub generation: u32,
    /// The master key that wraps from now on.
    pub key_id: String,
    /// The one that did before.
    pub key_id_before: String,
}

/// How things are with the secret.
#[derive(Clone, Debug)]
pub struct Standing {
    /// What the store has.
    pub stored: StoredSecrets,
    /// The names of the keys that the source has, the one that wraps first.
    pub key_ids: Vec<String>,
    /// What somebody has to do something about.
    pub trouble: Option<String>,
}

impl Secrets {
    /// Opens the installation's secret, making it if there is none, and wrapping it if it lies there in plain. Fails in
    /// words for whoever starts the server.
    pub(crate) async fn open(
        store: Arc<dyn Store>,
        source: MasterKeySource,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Secrets, Error> {
        let mut made = None;
        for _ in 0..TRIES_MAX {
            let stored = store.secrets().await?;
            if stored.generations.is_empty() {
                let keys = match source.load().await.map_err(Error::Invalid)? {
                    Some(keys) => keys,
                    None => {
                        make(&source, &*entropy)?;
                        let keys = source.load().await.map_err(Error::Invalid)?.ok_or(Error::Internal)?;
                        made = Some(keys.first().id.clone());
                        keys
                    }
                };
                crash::point("secret.key_made");
                // Whether this or another server has made them, they are read in the next round.
                store.change_secrets(&stored, first(&stored, keys.first(), &*entropy)).await?;
                crash::point("secret.kept");
                continue;
            }
            let keys = match source.load().await.map_err(Error::Invalid)? {
                Some(keys) => keys,
                None => return Err(Error::Invalid(missing(&stored, &source))),
            };
            let (ring, closed) = Ring::open(&stored, &keys, None, &entropy);
            if let Some((_, needed)) = closed.first() {
                // Nobody has used the key that was made here a moment ago, while another server's was taken.
                if made.as_ref() == Some(&keys.first().id)
                    && let Some(path) = source.file()
                {
                    let _ = std::fs::remove_file(path);
                }
                return Err(Error::Invalid(wrong(needed, &keys, &source)));
            }
            if stored.plain.is_some() {
                // A program from before has put it there since. Nobody uses it.
                store.change_secrets(&stored, SecretsChange::default()).await?;
                continue;
            }
            warn_if_open(&source);
            let key_id = &ring.newest().stored.key_id;
            tracing::info!(
                source = source.kind(),
                key_id,
                generation = ring.newest().number(),
                "the master key is there"
            );
            return Ok(Secrets {
                installation: stored.installation.clone().ok_or(Error::Internal)?,
                store,
                source,
                entropy,
                ring: RwLock::new(Arc::new(ring)),
                keys: Mutex::new(keys),
                trouble: Mutex::default(),
                looking: AsyncMutex::default(),
            });
        }
        Err(Error::Unavailable)
    }

    /// What tells this installation from others. It is no secret.
    pub fn installation(&self) -> &str {
        &self.installation
    }

    /// Where the master key comes from.
    pub fn source(&self) -> &MasterKeySource {
        &self.source
    }

    /// The generations, as far as this server knows them.
    pub fn ring(&self) -> Arc<Ring> {
        self.ring.read().expect("nobody panics while holding it").clone()
    }

    /// As [`Secrets::ring`], after a look at the store if the token names a generation that is not known here.
    pub async fn ring_for(&self, shown: &str) -> Result<Arc<Ring>, Error> {
        self.ring_with(token::generation_of(shown)).await
    }

    async fn ring_with(&self, generation: u32) -> Result<Arc<Ring>, Error> {
        let ring = self.ring();
        if generation <= GENERATION_MAX && ring.lacks(generation) {
            self.look().await?;
            let ring = self.ring();
            // It may be good, and this server lacks the master key to tell.
            if ring.lacks(generation) && self.trouble().is_some() {
                return Err(Error::Unavailable);
            }
            return Ok(ring);
        }
        Ok(ring)
    }

    /// Reads a token, whichever server has made it.
    pub async fn open_token<T>(
        &self,
        shown: &str,
        open: impl FnOnce(&TokenKey) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        Ok(self.ring_for(shown).await?.open_token(shown, open))
    }

    /// A ring that knows the generations of all references and sealed payloads among these.
    pub(crate) async fn ring_for_payloads<'a>(&self, kept: impl Iterator<Item = &'a [u8]>) -> Result<Arc<Ring>, Error> {
        let of = |kept: &[u8]| {
            Reference::read(kept).map(|reference| reference.generation).or_else(|| payloads::generation_of(kept))
        };
        let newest = kept.filter_map(of).max();
        self.ring_with(newest.unwrap_or(0)).await
    }

    /// Looks at the store. Those who come while somebody looks share the next look, and looks have pauses between them.
    pub(crate) async fn look(&self) -> Result<(), Error> {
        let came = Instant::now();
        let mut looking = self.looking.lock().await;
        if let Some(last) = *looking {
            if last >= came {
                return Ok(());
            }
            tokio::time::sleep(LOOK_PAUSE.saturating_sub(last.elapsed())).await;
        }
        *looking = Some(Instant::now());
        self.refresh().await.map(drop)
    }

    /// Takes over generations that another server has made. True when there were any.
    pub(crate) async fn refresh(&self) -> Result<bool, Error> {
        let stored = self.store.secrets().await?;
        let before = self.ring();
        let is_same = stored.generations.iter().eq(before.generations.values().map(|known| &known.stored));
        if stored.generations.is_empty() {
            return Ok(false);
        }
        let mut keys = self.keys.lock().expect("nobody panics while holding it").clone();
        let (mut ring, mut closed) = Ring::open(&stored, &keys, Some(&before), &self.entropy);
        let mut why = None;
        if !closed.is_empty() {
            // The source may have another key by now.
            match self.source.load().await {
                Ok(Some(read)) => {
                    (ring, closed) = Ring::open(&stored, &read, Some(&before), &self.entropy);
                    keys = read;
                }
                Ok(None) => why = Some(format!("{} is gone", self.source.place())),
                Err(error) => why = Some(error),
            }
        }
        let trouble = closed.last().map(|(generation, needed)| {
            let why = why.unwrap_or_else(|| format!("{} has {}", self.source.place(), keys.ids().join(", ")));
            format!(
                "the installation's secret (generation {generation}) is wrapped with the master key {needed} by now, which \
                 this server does not have: {why}. It goes on with the generations it knows, whose tokens end soon, and \
                 would not start again. Give it the key, as the first line of its source; it is read within seconds"
            )
        });
        let is_news = self.trouble() != trouble;
        if let Some(trouble) = trouble.as_ref().filter(|_| is_news) {
            tracing::error!("{trouble}");
        }
        if !ring.generations.is_empty() {
            if ring.newest().number() > before.newest().number() {
                tracing::info!(generation = ring.newest().number(), "there is a new generation of the secret");
            }
            let mut now = self.ring.write().expect("nobody panics while holding it");
            // Somebody may have read the store later than this, and be done before.
            if ring.newest().number() >= now.newest().number() {
                *now = Arc::new(ring);
            }
        }
        *self.keys.lock().expect("nobody panics while holding it") = keys;
        *self.trouble.lock().expect("nobody panics while holding it") = trouble;
        Ok(!is_same)
    }

    fn trouble(&self) -> Option<String> {
        self.trouble.lock().expect("nobody panics while holding it").clone()
    }

    /// How things are now.
    pub(crate) async fn standing(&self) -> Result<Standing, Error> {
        self.refresh().await?;
        // As the source is now: somebody may have put a new key in front, which the next rotation takes.
        let key_ids = match self.source.load().await {
            Ok(Some(keys)) => keys.ids(),
            Ok(None) | Err(_) => self.keys.lock().expect("nobody panics while holding it").ids(),
        };
        Ok(Standing { stored: self.store.secrets().await?, key_ids, trouble: self.trouble() })
    }

    /// Makes a new generation, and wraps all of them with the first key of the source. Tokens of those before are good for
    /// `overlap_ms` more. Where the server keeps the master key by itself, and nobody else may need it, that is a new one,
    /// too.
    pub(crate) async fn rotate(&self, overlap_ms: Millis) -> Result<Rotated, Error> {
        // Nobody looks meanwhile: keys and ring change together.
        let mut looking = self.looking.lock().await;
        for _ in 0..TRIES_MAX {
            let stored = self.store.secrets().await?;
            let newest = stored.generations.last().ok_or(Error::Internal)?;
            let number = newest.generation + 1;
            if number > GENERATION_MAX {
                return Err(Error::Conflict(format!(
                    "there are {GENERATION_MAX} generations of the secret, which is all"
                )));
            }
            let keys = self.source.load().await.map_err(Error::Conflict)?;
            let mut keys = keys.ok_or_else(|| Error::Conflict(missing(&stored, &self.source)))?;
            let own = self.own_file();
            if let Some(path) = own.filter(|_| keys.first().id == newest.key_id) {
                keys = MasterKeys::with_first(MasterKey::fresh(&*self.entropy), Some(keys));
                // Both are there until nothing is wrapped with the old one any more.
                write(&keys, path)?;
                crash::point("secret.key_added");
            }
            let (ring, closed) = Ring::open(&stored, &keys, Some(&self.ring()), &self.entropy);
            if let Some((_, needed)) = closed.first().filter(|_| ring.generations.len() < stored.generations.len()) {
                return Err(Error::Conflict(wrong(needed, &keys, &self.source)));
            }
            let change = next(&stored, &ring, keys.first(), overlap_ms, &*self.entropy);
            if !self.store.change_secrets(&stored, change).await? {
                continue;
            }
            crash::point("secret.rotated");
            let rotated =
                Rotated { generation: number, key_id: keys.first().id.clone(), key_id_before: newest.key_id.clone() };
            if let Some(path) = own {
                keys = MasterKeys::with_first(keys.first().clone(), None);
                write(&keys, path)?;
                crash::point("secret.key_dropped");
            }
            *self.keys.lock().expect("nobody panics while holding it") = keys;
            *looking = Some(Instant::now());
            self.refresh().await?;
            return Ok(rotated);
        }
        Err(Error::Conflict("others keep rotating the secret; try again".into()))
    }

    /// The file that this server may write keys into by itself. On a store that others use, too, they would need the new
    /// key, and do not have it: there a person has to hand it to all.
    fn own_file(&self) -> Option<&std::path::Path> {
        match &self.source {
            MasterKeySource::DataDirectory(path) if !self.store.is_shared() => Some(path),
            _ => None,
        }
    }
}

/// Whether a server with this source could open the secrets of this store, and with which key.
pub async fn check(store: &dyn Store, source: &MasterKeySource) -> Result<Option<String>, String> {
    let stored = store.secrets().await.map_err(|error| error.to_string())?;
    let Some(newest) = stored.generations.last() else { return Ok(None) };
    let keys = source.load().await?.ok_or_else(|| missing(&stored, source))?;
    match stored.generations.iter().find(|wrapped| {
        let key = keys.get(&wrapped.key_id);
        key.and_then(|key| key.open(wrapped.generation, &wrapped.wrapped)).is_none()
    }) {
        Some(closed) => Err(wrong(&closed.key_id, &keys, source)),
        None => Ok(Some(newest.key_id.clone())),
    }
}

/// Discards all generations and begins anew: what they have sealed is lost. For whoever has lost the master key.
pub async fn reset(store: &dyn Store, source: &MasterKeySource, entropy: &dyn Entropy) -> Result<Rotated, String> {
    let unreachable = |error: baton_store::StoreError| error.to_string();
    for _ in 0..TRIES_MAX {
        let stored = store.secrets().await.map_err(unreachable)?;
        let keys = match source.load().await? {
            Some(keys) => keys,
            None => {
                make(source, entropy).map_err(|error| error.to_string())?;
                source.load().await?.ok_or("the master key that was made is gone")?
            }
        };
        let number = stored.generations.last().map_or(1, |newest| newest.generation + 1).min(GENERATION_MAX);
        let mut secret = Zeroizing::new([0; 32]);
        entropy.fill(&mut *secret);
        let key = keys.first();
        let change = SecretsChange {
            discard: true,
            write: vec![(number, key.wrap(number, &secret, entropy), key.id.clone())],
            overlap_ms: None,
            installation: Some(installation_of(&secret)),
        };
        if store.change_secrets(&stored, change).await.map_err(unreachable)? {
            let key_id_before = stored.generations.last().map_or_else(String::new, |newest| newest.key_id.clone());
            let entry = AuditEntry {
                actor: "baton secret reset".into(),
                action: "secret.reset".into(),
                subject: format!("generation {number}"),
                detail: format!("wrapped with {} instead of {key_id_before}; what was sealed is lost", key.id),
                ..AuditEntry::default()
            };
            store.audit(vec![entry]).await.map_err(unreachable)?;
            return Ok(Rotated { generation: number, key_id: key.id.clone(), key_id_before });
        }
    }
    Err("a server keeps changing the secrets; stop it first".into())
}

fn make(source: &MasterKeySource, entropy: &dyn Entropy) -> Result<(), Error> {
    let Some(path) = source.file() else { return Ok(()) };
    match MasterKeys::with_first(MasterKey::fresh(entropy), None).write(path, true) {
        Ok(()) => {
            tracing::info!(file = %path.display(), "made a master key; keep a copy of it, and not where backups of the database are");
            Ok(())
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(Error::Invalid(format!("cannot write the master key to {}: {error}", path.display()))),
    }
}

fn write(keys: &MasterKeys, path: &std::path::Path) -> Result<(), Error> {
    keys.write(path, false)
        .map_err(|error| Error::Conflict(format!("cannot write the master key to {}: {error}", path.display())))
}

/// The first generation, and before it the secret that lay in plain.
fn first(stored: &StoredSecrets, key: &MasterKey, entropy: &dyn Entropy) -> SecretsChange {
    let mut secret = Zeroizing::new([0; 32]);
    entropy.fill(&mut *secret);
    let wrap = |number: u32, secret: &[u8; 32]| (number, key.wrap(number, secret, entropy), key.id.clone());
    let old = stored.plain.map(Zeroizing::new);
    SecretsChange {
        discard: false,
        write: old.iter().map(|old| wrap(0, old)).chain([wrap(1, &secret)]).collect(),
        overlap_ms: Some(OVERLAP_MS),
        installation: Some(installation_of(old.as_deref().unwrap_or(&secret))),
    }
}

/// The next generation, and those before it that another key has wrapped.
fn next(
    stored: &StoredSecrets,
    ring: &Ring,
    key: &MasterKey,
    overlap_ms: Millis,
    entropy: &dyn Entropy,
) -> SecretsChange {
    let mut secret = Zeroizing::new([0; 32]);
    entropy.fill(&mut *secret);
    let wrap = |number: u32, secret: &[u8; 32]| (number, key.wrap(number, secret, entropy), key.id.clone());
    let is_old = |wrapped: &&WrappedSecret| wrapped.key_id != key.id;
    let old = stored.generations.iter().filter(is_old).filter_map(|wrapped| ring.get(wrapped.generation));
    let number = stored.generations.last().map_or(0, |newest| newest.generation) + 1;
    let write = old.map(|old| wrap(old.number(), &old.secret)).chain([wrap(number, &secret)]).collect();
    SecretsChange { discard: false, write, overlap_ms: Some(overlap_ms), installation: None }
}

/// As installations were told apart before it was kept beside the secret.
fn installation_of(secret: &[u8; 32]) -> String {
    let sum = Sha256::new().chain_update(b"installation").chain_update(secret).finalize();
    sum.iter().take(5).map(|byte| format!("{byte:02x}")).collect()
}

fn missing(stored: &StoredSecrets, source: &MasterKeySource) -> String {
    let needed = stored.generations.last().map_or("", |newest| newest.key_id.as_str());
    format!(
        "the secrets in this database are wrapped with the master key {needed}, and {}, where it was expected, is not \
         there. Put the file back, or copy it from another server of this database, or say where the key is \
         (master_key_file, {MASTER_KEY_VARIABLE}, master_key_command). docs/secrets.md says what to do if it is lost",
        source.place()
    )
}

fn wrong(needed: &str, keys: &MasterKeys, source: &MasterKeySource) -> String {
    format!(
        "the secrets in this database are wrapped with the master key {needed}, and {} has {}. All servers of a database \
         need the same master key: copy that of a server that runs (baton secret status says where it has it), or put the \
         right one there. docs/secrets.md says what to do if it is lost",
        source.place(),
        keys.ids().join(", ")
    )
}

fn warn_if_open(source: &MasterKeySource) {
    if let Some(path) = source.file()
        && let Some(mode) = mode_too_wide(path)
    {
        tracing::warn!(file = %path.display(), mode = %format!("{mode:o}"), "others on this machine can read the master key; chmod 600 closes it");
    }
}
