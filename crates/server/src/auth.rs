//! API keys: who is calling, and what they may do.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton_core::rate::{self, Bucket};
use baton_core::token::{self, Hash};
use baton_store::{AuditEntry, Key, Scope, Store};

use crate::{Error, Settings};

/// How long a key is believed without asking the store: a revocation on another server takes this long to arrive.
const KEY_FRESH: Duration = Duration::from_secs(5);
/// Most keys remembered.
const KEYS_MAX: usize = 10_000;
/// Most addresses whose refusals are counted.
const ADDRESSES_MAX: usize = 10_000;
/// The id of the key given in the settings.
pub const SETTINGS_KEY_ID: &str = "settings";

/// Who is calling.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The key's id.
    pub key_id: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// Where; `None` is everywhere.
    pub namespace: Option<String>,
}

impl Caller {
    /// Refuses unless the caller has this scope in this namespace.
    pub fn may(&self, scope: Scope, namespace: &str) -> Result<(), Error> {
        self.has(scope)?;
        if self.sees(namespace) {
            return Ok(());
        }
        Err(Error::Forbidden(format!(
            "the API key {} is good for the namespace {} only, not for {namespace}",
            self.key_id,
            self.namespace.as_deref().unwrap_or_default()
        )))
    }

    /// Refuses unless the caller has this scope.
    pub fn has(&self, scope: Scope) -> Result<(), Error> {
        let allowed = self.scopes.iter().any(|has| match has {
            Scope::Admin => true,
            Scope::Submit => matches!(scope, Scope::Submit | Scope::Read),
            Scope::Worker => scope == Scope::Worker,
            Scope::Read => scope == Scope::Read,
        });
        if allowed {
            return Ok(());
        }
        Err(Error::Forbidden(format!(
            "the API key {} lacks the scope {}; ask an administrator for a key that has it",
            self.key_id,
            scope_name(scope)
        )))
    }

    /// True when the caller's key reaches into this namespace.
    pub fn sees(&self, namespace: &str) -> bool {
        self.namespace.as_deref().is_none_or(|own| own == namespace)
    }
}

/// The word for a scope.
pub fn scope_name(scope: Scope) -> &'static str {
    match scope {
        Scope::Admin => "admin",
        Scope::Submit => "submit",
        Scope::Worker => "worker",
        Scope::Read => "read",
    }
}

/// The scope with this word.
pub fn scope_named(word: &str) -> Option<Scope> {
    [Scope::Admin, Scope::Submit, Scope::Worker, Scope::Read].into_iter().find(|scope| scope_name(*scope) == word)
}

#[derive(Debug)]
struct Remembered {
    caller: Arc<Caller>,
    at: Instant,
    bucket: Bucket,
}

/// The keys this server has seen lately.
#[derive(Debug)]
pub struct Keys {
    store: Arc<dyn Store>,
    from_settings: Option<Hash>,
    requests_per_second: u32,
    refusals_per_second: u32,
    begun: Instant,
    seen: Mutex<HashMap<Hash, Remembered>>,
    refusals: Mutex<HashMap<IpAddr, Bucket>>,
}

impl Keys {
    /// Remembers nothing yet.
    pub fn new(store: Arc<dyn Store>, settings: &Settings) -> Keys {
        Keys {
            store,
            from_settings: settings.api_key.as_deref().map(token::hash),
            requests_per_second: settings.requests_per_second,
            refusals_per_second: settings.refusals_per_second,
            begun: Instant::now(),
            seen: Mutex::default(),
            refusals: Mutex::default(),
        }
    }

    /// Who the credential belongs to. `from` is where the call comes from.
    pub async fn check(&self, credential: Option<&str>, from: Option<IpAddr>) -> Result<Arc<Caller>, Error> {
        let Some(credential) = credential else {
            return Err(Error::NoCredential);
        };
        let hash = token::hash(credential);
        if let Some(known) = self.remembered(&hash) {
            return known;
        }
        if let Some(caller) = self.look_up(&hash).await? {
            return self.remember(hash, caller);
        }
        self.refuse(from).await
    }

    fn now_ms(&self) -> i64 {
        self.begun.elapsed().as_millis() as i64
    }

    fn remembered(&self, hash: &Hash) -> Option<Result<Arc<Caller>, Error>> {
        let mut seen = self.seen.lock().expect("nobody panics while holding it");
        let known = seen.get_mut(hash).filter(|known| known.at.elapsed() < KEY_FRESH)?;
        Some(self.within_rate(&mut known.bucket).map(|()| known.caller.clone()))
    }

    fn within_rate(&self, bucket: &mut Bucket) -> Result<(), Error> {
        if self.requests_per_second == 0 {
            return Ok(());
        }
        let (per_second, now) = (f64::from(self.requests_per_second), self.now_ms());
        let (granted, left) = rate::take(*bucket, per_second, now, 1);
        *bucket = left;
        match granted {
            0 => Err(Error::TooMany { retry_after_ms: rate::wait_ms(left, per_second, now).max(1) as u64 }),
            _ => Ok(()),
        }
    }

    async fn look_up(&self, hash: &Hash) -> Result<Option<Caller>, Error> {
        // A key that the store knows keeps its scopes, also when somebody starts the server with it by mistake.
        if let Some(Key { id, scopes, namespace, revoked_at, .. }) = self.store.key(hash).await? {
            return Ok(revoked_at.is_none().then_some(Caller { key_id: id, scopes, namespace }));
        }
        let from_settings = self.from_settings.as_ref().is_some_and(|own| token::same(own, hash));
        let admin = || Caller { key_id: SETTINGS_KEY_ID.into(), scopes: vec![Scope::Admin], namespace: None };
        Ok(from_settings.then(admin))
    }

    fn remember(&self, hash: Hash, caller: Caller) -> Result<Arc<Caller>, Error> {
        let mut seen = self.seen.lock().expect("nobody panics while holding it");
        if seen.len() >= KEYS_MAX {
            seen.clear();
        }
        let full = Bucket { tokens: f64::from(self.requests_per_second), at: self.now_ms() };
        let bucket = seen.get(&hash).map_or(full, |known| known.bucket);
        let caller = Arc::new(caller);
        let known = Remembered { caller: caller.clone(), at: Instant::now(), bucket };
        self.within_rate(&mut seen.entry(hash).insert_entry(known).into_mut().bucket)?;
        Ok(caller)
    }

    /// Refuses, writes it down, and slows down whoever guesses.
    async fn refuse(&self, from: Option<IpAddr>) -> Result<Arc<Caller>, Error> {
        if let Some(from) = from {
            let (per_second, now) = (f64::from(self.refusals_per_second.max(1)), self.now_ms());
            let mut refusals = self.refusals.lock().expect("nobody panics while holding it");
            if refusals.len() >= ADDRESSES_MAX {
                refusals.clear();
            }
            let bucket = refusals.entry(from).or_insert(Bucket { tokens: per_second, at: now });
            let (granted, left) = rate::take(*bucket, per_second, now, 1);
            *bucket = left;
            if granted == 0 {
                return Err(Error::TooMany { retry_after_ms: 1_000 });
            }
        }
        let entry = AuditEntry {
            actor: from.map_or_else(|| "unknown".into(), |from| from.to_string()),
            action: "credential.refused".into(),
            subject: "api key".into(),
            detail: "the key is not known or was revoked".into(),
            namespace: None,
        };
        self.store.audit(vec![entry]).await?;
        Err(Error::BadCredential("the API key is not known or was revoked".into()))
    }

    /// Forgets what is remembered, so that a revocation on this server counts at once.
    pub fn forget(&self) {
        self.seen.lock().expect("nobody panics while holding it").clear();
    }
}
