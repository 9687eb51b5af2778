//! The installation's secret, in generations, as the store knows it.

use std::fmt;

use baton_core::Millis;

/// All that the store knows of the installation's secret.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredSecrets {
    /// The secret of an installation from before there were master keys.
    pub plain: Option<[u8; 32]>,
    /// What tells this installation from others. No secret, and never changed once it is kept.
    pub installation: Option<String>,
    /// The generations, oldest first.
    pub generations: Vec<WrappedSecret>,
    /// When this was read.
    pub now: Millis,
}

impl fmt::Debug for StoredSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StoredSecrets { plain, installation, generations, now } = self;
        f.debug_struct("StoredSecrets")
            .field("has_plain", &plain.is_some())
            .field("installation", installation)
            .field("generations", generations)
            .field("now", now)
            .finish()
    }
}

impl StoredSecrets {
    /// Whether nobody has changed anything between the two.
    pub(crate) fn are_same(&self, other: &StoredSecrets) -> bool {
        self.plain == other.plain && self.generations == other.generations
    }
}

/// A generation of the installation's secret, encrypted with a master key.
#[derive(Clone, PartialEq, Eq)]
pub struct WrappedSecret {
    /// 0 is the secret from before there were generations.
    pub generation: u32,
    /// The secret, encrypted.
    pub wrapped: Vec<u8>,
    /// Which master key opens it.
    pub key_id: String,
    /// When it was made. Wrapping it anew does not change this.
    pub made_at: Millis,
    /// Until when tokens that were derived from it are good; for ever while it is the newest.
    pub tokens_until: Option<Millis>,
}

impl fmt::Debug for WrappedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "generation {} (wrapped with {})", self.generation, self.key_id)
    }
}

/// What is to become of the installation's secret. In any case a plain one goes.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct SecretsChange {
    /// Forget all generations first.
    pub discard: bool,
    /// Generation, wrapped secret and name of the master key: new ones, and those to be wrapped anew.
    pub write: Vec<(u32, Vec<u8>, String)>,
    /// How long tokens of all generations but the newest stay good, unless they end before.
    pub overlap_ms: Option<Millis>,
    /// Kept unless there is one.
    pub installation: Option<String>,
}

impl fmt::Debug for SecretsChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretsChange of {} generations", self.write.len())
    }
}
