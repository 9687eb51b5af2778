//! API keys: who is calling, and what they may do.

use std::collections::HashMap;
use std::fmt::Display;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton_core::rate::{self, Bucket};
use baton_core::token::{self, Hash};
use baton_proto::{API_KEY_HEADER, NAMESPACE_DEFAULT};
use baton_store::{AuditEntry, Key, Scope, Store};
use http::{HeaderMap, HeaderValue};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::addresses::network;
use crate::answers::Answer;
use crate::audit::Audit;
use crate::settings::LiveSettings;
use crate::tls::Holder;
use crate::{Error, Settings};

/// How long a key is believed without asking the store: a revocation on another server takes this long to arrive.
const KEY_FRESH: Duration = Duration::from_secs(5);
/// How often it is written down that a key is in use.
const NOTE_EVERY: Duration = Duration::from_secs(60);
/// Most keys remembered.
const KEYS_MAX: usize = 10_000;
/// Most addresses whose refusals are counted.
const ADDRESSES_MAX: usize = 10_000;
/// Unknown keys that are looked up at once, of those that come from where many were wrong.
const SUSPECTS_MAX: usize = 2;
/// How long such a key waits for its turn.
const SUSPECT_WAIT: Duration = Duration::from_secs(5);
/// The id of the key given in the settings.
pub const SETTINGS_KEY_ID: &str = "settings";

/// Stands where the id of an API key would for anyone with access to the machine that the server
/// runs on: links that the server prints at its start may begin such sessions.
pub(crate) const OPERATOR: &str = "operator";

/// Credentials that say by themselves who is calling. A client certificate is for those without.
const OF_THEIR_OWN: [&str; 3] = ["x-worker-token", "x-build-token", "x-vm-token"];

/// Stands where the id of an API key would. No key has it: theirs are made of letters and digits
/// that are drawn.
pub(crate) const ANONYMOUS: &str = "anonymous";

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
        Err(refused(format!(
            "the API key {} is good for the namespace {} only, not for {namespace}",
            self.key_id,
            self.namespace.as_deref().unwrap_or_default()
        )))
    }

    /// True when the caller has this scope.
    pub fn can(&self, scope: Scope) -> bool {
        self.scopes.iter().any(|has| match has {
            Scope::Admin => true,
            Scope::Submit => matches!(scope, Scope::Submit | Scope::Read),
            Scope::Worker => scope == Scope::Worker,
            Scope::Read => scope == Scope::Read,
        })
    }

    /// Refuses unless the caller has this scope.
    pub fn has(&self, scope: Scope) -> Result<(), Error> {
        if self.can(scope) {
            return Ok(());
        }
        Err(refused(format!(
            "the API key {} lacks the scope {}; ask an administrator for a key that has it",
            self.key_id,
            scope_name(scope)
        )))
    }

    /// Refuses unless the caller may act for a worker of this namespace that registered with this
    /// key. Administrators may act for all. A worker of a foreign namespace is unknown.
    pub fn may_act_for(&self, worker: impl Display, key_id: Option<&str>, namespace: &str) -> Result<(), Error> {
        self.has(Scope::Worker)?;
        if !self.sees(namespace) {
            return Err(Error::no_worker(worker));
        }
        if self.can(Scope::Admin) || key_id.is_none_or(|own| own == self.key_id) {
            return Ok(());
        }
        Err(refused(format!("the worker {worker} registered with another API key")))
    }

    /// Whoever shows nothing at all, where the setting `expo_legacy_auth` lets such workers in.
    pub fn anonymous() -> Caller {
        Caller { key_id: ANONYMOUS.into(), scopes: vec![Scope::Worker], namespace: Some(NAMESPACE_DEFAULT.into()) }
    }

    /// One who may do everything everywhere without a key of the store.
    pub(crate) fn administrator(key_id: &str) -> Caller {
        Caller { key_id: key_id.into(), scopes: vec![Scope::Admin], namespace: None }
    }

    /// A worker that has proven who it is by other means than the API key it registered with.
    pub fn of_worker(key_id: Option<&str>, namespace: &str) -> Caller {
        let key_id = key_id.unwrap_or_default().to_owned();
        Caller { key_id, scopes: vec![Scope::Worker], namespace: Some(namespace.to_owned()) }
    }

    /// True for an administrator of everything: one who may know where things are kept.
    pub fn is_administrator(&self) -> bool {
        self.can(Scope::Admin) && self.namespace.is_none()
    }

    /// True when the caller's key reaches into this namespace.
    pub fn sees(&self, namespace: &str) -> bool {
        self.namespace.as_deref().is_none_or(|own| own == namespace)
    }
}

/// Refuses a caller whose key is good, and not enough. It is written down when it is answered.
pub(crate) fn refused(why: String) -> Error {
    Answer::is_refused(&why);
    Error::Forbidden(why)
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
    /// When it was last written down that it is in use.
    noted: Instant,
    bucket: Bucket,
}

/// The keys this server has seen lately.
#[derive(Debug)]
pub struct Keys {
    store: Arc<dyn Store>,
    audit: Arc<Audit>,
    from_settings: Option<Hash>,
    live: Arc<LiveSettings>,
    begun: Instant,
    seen: Mutex<HashMap<Hash, Remembered>>,
    refusals: Mutex<HashMap<IpAddr, Bucket>>,
    suspects: Semaphore,
    /// Begins the credential of a request whose client has shown a certificate. Nobody outside of
    /// this process knows it.
    certified: String,
}

impl Keys {
    /// Remembers nothing yet.
    pub fn new(store: Arc<dyn Store>, audit: Arc<Audit>, settings: &Settings, live: Arc<LiveSettings>) -> Keys {
        Keys {
            store,
            audit,
            from_settings: settings.api_key.as_deref().map(token::hash),
            live,
            begun: Instant::now(),
            seen: Mutex::default(),
            refusals: Mutex::default(),
            suspects: Semaphore::new(SUSPECTS_MAX),
            certified: certified(),
        }
    }

    /// Lets a client certificate stand for the key of a request that brings no credential, wherever
    /// that is looked for.
    pub(crate) fn stand_in(&self, holder: &Holder, headers: &mut HeaderMap) {
        let brings_its_own =
            crate::http::credential(headers).is_some() || OF_THEIR_OWN.iter().any(|name| headers.contains_key(*name));
        if brings_its_own || !holder.is_good() {
            return;
        }
        let key_id = holder.key_id.as_deref().unwrap_or_default();
        if let Ok(mut value) = HeaderValue::try_from(format!("{}{key_id}", self.certified)) {
            value.set_sensitive(true);
            headers.insert(API_KEY_HEADER, value);
        }
    }

    /// The id of the key that a certificate stands for, if the credential is of that kind.
    fn certified_id<'a>(&self, credential: &'a str) -> Option<&'a str> {
        let (begins, id) = credential.split_at_checked(self.certified.len())?;
        token::same(&token::hash(begins), &token::hash(&self.certified)).then_some(id)
    }

    /// The secret of an API key, if the credential is one: a client certificate brings none.
    pub(crate) fn secret<'a>(&self, credential: Option<&'a str>) -> Option<&'a str> {
        credential.filter(|credential| self.certified_id(credential).is_none())
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
        if self.certified_id(credential) == Some("") {
            return Err(Error::NoCertifiedKey);
        }
        let _turn = self.turn(self.has_seen(&hash), from).await?;
        let found = match self.certified_id(credential) {
            Some(id) => self.look_up_id(id).await?,
            None => self.look_up(&hash).await?,
        };
        if let Some(caller) = found {
            return self.remember(hash, caller);
        }
        if let Some(id) = self.certified_id(credential) {
            let why = format!(
                "the client certificate stands for the API key {id} (tls_client_keys), which is not known, was revoked, or \
                 its time is over"
            );
            return Err(self.refused(from, "client certificate", &why).await);
        }
        Err(self.refused(from, "api key", "Invalid API key: it is not known, was revoked, or its time is over").await)
    }

    /// Waits until something that somebody shows may be looked up. From where many keys were wrong only a few at a time get
    /// to the store, so that guessing does not keep it busy. Keys that were good before do not stand in that line. Others
    /// wait their turn: a good key must not be refused because of those that somebody behind the same address makes up.
    pub(crate) async fn turn(
        &self,
        was_good: bool,
        from: Option<IpAddr>,
    ) -> Result<Option<SemaphorePermit<'_>>, Error> {
        let address = from.map(network);
        if was_good || !address.is_some_and(|address| self.is_guessing(address)) {
            return Ok(None);
        }
        match tokio::time::timeout(SUSPECT_WAIT, self.suspects.acquire()).await {
            Ok(turn) => Ok(turn.ok()),
            Err(_) => Err(Error::TooMany { retry_after_ms: 1_000 }),
        }
    }

    /// True for the hash of the key in the settings.
    pub(crate) fn is_from_settings(&self, hash: &Hash) -> bool {
        self.from_settings.as_ref().is_some_and(|own| token::same(own, hash))
    }

    /// A bucket for calls that nobody has taken from.
    pub(crate) fn full_bucket(&self) -> Bucket {
        Bucket { tokens: f64::from(self.live.get().requests_per_second), at: self.now_ms() }
    }

    /// True when a credential that was good is so still. This is no call of its holder: it counts against no limit, and
    /// waits behind nobody who guesses.
    pub(crate) async fn is_still_good(&self, credential: Option<&str>) -> Result<bool, Error> {
        let Some(credential) = credential else { return Ok(false) };
        let hash = token::hash(credential);
        let fresh = |known: &Remembered| known.at.elapsed() < KEY_FRESH;
        if self.seen.lock().expect("nobody panics while holding it").get(&hash).is_some_and(fresh) {
            return Ok(true);
        }
        let found = match self.certified_id(credential) {
            Some(id) => self.look_up_id(id).await?,
            None => self.look_up(&hash).await?,
        };
        let mut seen = self.seen.lock().expect("nobody panics while holding it");
        match (&found, seen.get_mut(&hash)) {
            (Some(_), Some(known)) => known.at = Instant::now(),
            (None, Some(_)) => drop(seen.remove(&hash)),
            (_, None) => {}
        }
        Ok(found.is_some())
    }

    fn has_seen(&self, hash: &Hash) -> bool {
        self.seen.lock().expect("nobody panics while holding it").contains_key(hash)
    }

    fn is_guessing(&self, address: IpAddr) -> bool {
        let per_second = self.refusals_per_second();
        let refusals = self.refusals.lock().expect("nobody panics while holding it");
        refusals.get(&address).is_some_and(|bucket| rate::take(*bucket, per_second, self.now_ms(), 1).0 == 0)
    }

    fn refusals_per_second(&self) -> f64 {
        f64::from(self.live.get().refusals_per_second.max(1))
    }

    fn now_ms(&self) -> i64 {
        self.begun.elapsed().as_millis() as i64
    }

    fn remembered(&self, hash: &Hash) -> Option<Result<Arc<Caller>, Error>> {
        let mut seen = self.seen.lock().expect("nobody panics while holding it");
        let known = seen.get_mut(hash).filter(|known| known.at.elapsed() < KEY_FRESH)?;
        Some(self.within_rate(&mut known.bucket).map(|()| known.caller.clone()))
    }

    /// Takes from a bucket what a call costs, where calls are limited.
    pub(crate) fn within_rate(&self, bucket: &mut Bucket) -> Result<(), Error> {
        let per_second = f64::from(self.live.get().requests_per_second);
        if per_second == 0.0 {
            return Ok(());
        }
        let now = self.now_ms();
        let (granted, left) = rate::take(*bucket, per_second, now, 1);
        *bucket = left;
        match granted {
            0 => Err(Error::TooMany { retry_after_ms: rate::wait_ms(left, per_second, now).max(1) as u64 }),
            _ => Ok(()),
        }
    }

    async fn look_up(&self, hash: &Hash) -> Result<Option<Caller>, Error> {
        // A key that the store knows keeps its scopes, also when somebody starts the server with it by mistake.
        if let Some(Key { id, scopes, namespace, revoked_at, is_over, .. }) = self.store.key(hash).await? {
            let is_good = revoked_at.is_none() && !is_over;
            return Ok(is_good.then_some(Caller { key_id: id, scopes, namespace }));
        }
        Ok(self.is_from_settings(hash).then(|| Caller::administrator(SETTINGS_KEY_ID)))
    }

    /// The caller whose key has this id, if that is good.
    async fn look_up_id(&self, wanted: &str) -> Result<Option<Caller>, Error> {
        let found = self.store.keys().await?.into_iter().find(|key| key.id == wanted);
        let good = found.filter(|key| key.revoked_at.is_none() && !key.is_over);
        Ok(good.map(|Key { id, scopes, namespace, .. }| Caller { key_id: id, scopes, namespace }))
    }

    fn remember(&self, hash: Hash, caller: Caller) -> Result<Arc<Caller>, Error> {
        let mut seen = self.seen.lock().expect("nobody panics while holding it");
        if seen.len() >= KEYS_MAX {
            seen.clear();
        }
        let full = self.full_bucket();
        let before = seen.get(&hash);
        let bucket = before.map_or(full, |known| known.bucket);
        let noted = before.map(|known| known.noted).filter(|noted| noted.elapsed() < NOTE_EVERY);
        let caller = Arc::new(caller);
        if noted.is_none() {
            self.note_use(&caller);
        }
        let noted = noted.unwrap_or_else(Instant::now);
        let known = Remembered { caller: caller.clone(), at: Instant::now(), noted, bucket };
        self.within_rate(&mut seen.entry(hash).insert_entry(known).into_mut().bucket)?;
        Ok(caller)
    }

    /// Writes down that a key is in use; nobody waits for it.
    pub(crate) fn note_use(&self, caller: &Arc<Caller>) {
        if [SETTINGS_KEY_ID, OPERATOR].contains(&caller.key_id.as_str()) {
            return;
        }
        let (store, caller) = (self.store.clone(), caller.clone());
        tokio::spawn(async move {
            if let Err(error) = store.touch_key(&caller.key_id).await {
                tracing::debug!(%error, key = caller.key_id, "that a key was used could not be noted");
            }
        });
    }

    /// Refuses a credential, writes it down, and slows down whoever guesses.
    pub(crate) async fn refused(&self, from: Option<IpAddr>, subject: &str, why: &str) -> Error {
        if !self.may_write_down(from) {
            return Error::TooMany { retry_after_ms: 1_000 };
        }
        let entry = AuditEntry {
            actor: from.map_or_else(|| "unknown".into(), |from| from.to_string()),
            action: "credential.refused".into(),
            subject: subject.into(),
            detail: why.into(),
            ..AuditEntry::default()
        };
        match self.audit.write(entry).await {
            Ok(()) => Error::BadCredential(why.into()),
            Err(error) => error.into(),
        }
    }

    /// Writes down that a good key was refused, because it is not enough for what was asked. Those of
    /// one address are written down as often as `refusals_per_second` says.
    pub(crate) async fn note_refusal(&self, answer: &Answer, from: Option<IpAddr>, what: &str) {
        let Some((caller, why)) = answer.refusal() else { return };
        if !self.may_write_down(from) {
            return;
        }
        let entry = AuditEntry {
            actor: caller.key_id.clone(),
            action: "access.refused".into(),
            subject: what.into(),
            detail: why,
            namespace: caller.namespace.clone(),
            ..AuditEntry::default()
        };
        if let Err(error) = answer.made_by(self.audit.write(entry)).await {
            tracing::warn!(%error, key = caller.key_id, "a refusal could not be written to the audit log");
        }
    }

    /// Counts refusals of an address. False when it had too many of them.
    pub(crate) fn may_write_down(&self, from: Option<IpAddr>) -> bool {
        let Some(address) = from.map(network) else { return true };
        let (per_second, now) = (self.refusals_per_second(), self.now_ms());
        let mut refusals = self.refusals.lock().expect("nobody panics while holding it");
        if refusals.len() >= ADDRESSES_MAX {
            refusals.clear();
        }
        let bucket = refusals.entry(address).or_insert(Bucket { tokens: per_second, at: now });
        let (granted, left) = rate::take(*bucket, per_second, now, 1);
        *bucket = left;
        granted > 0
    }

    /// Forgets what is remembered, so that a revocation on this server counts at once.
    pub fn forget(&self) {
        self.seen.lock().expect("nobody panics while holding it").clear();
    }
}

/// What begins the credentials of those with a certificate.
fn certified() -> String {
    let mut bits = [0; 32];
    // Without them the system is in no state to serve anybody.
    getrandom::fill(&mut bits).expect("the system gives random bits");
    bits.iter().fold("certificate:".to_owned(), |text, byte| format!("{text}{byte:02x}")) + ":"
}
