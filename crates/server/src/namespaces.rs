//! What this server remembers of namespaces, so that a submit costs no query to learn that its namespace is open and has room.
//! Other servers' changes come as hints, and with a look now and then.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, RwLock};

use baton_store::{Namespace, NamespaceLimits, Store};

use crate::Error;
use crate::allowance::{Admission, Allowance};
use crate::service::check_plain_name;

/// How far a look goes back beyond what was seen last: a change may be seen later than others that were begun after it.
const OVERLAP: i64 = 100;

/// A namespace this server knows of.
#[derive(Debug)]
struct Known {
    namespace: Namespace,
    live_runs: Arc<Allowance>,
}

/// The namespaces this server knows of.
#[derive(Debug)]
pub struct KnownNamespaces {
    store: Arc<dyn Store>,
    known: RwLock<HashMap<String, Arc<Known>>>,
    /// The number of the newest change that was seen.
    seen: AtomicI64,
    /// Whether any namespace seals its payloads: where none does, nobody has to find out whose a payload is.
    any_seals: AtomicBool,
}

impl KnownNamespaces {
    /// Reads what the store has.
    pub async fn load(store: Arc<dyn Store>) -> Result<KnownNamespaces, Error> {
        let namespaces = KnownNamespaces {
            store,
            known: RwLock::default(),
            seen: AtomicI64::new(0),
            any_seals: AtomicBool::default(),
        };
        namespaces.refresh().await?;
        Ok(namespaces)
    }

    /// Takes over what others have changed. Returns the names of those that were disabled or enabled.
    pub async fn refresh(&self) -> Result<Vec<String>, Error> {
        let since = self.seen.load(Ordering::Relaxed).saturating_sub(OVERLAP);
        let changed = self.store.namespaces(since).await?;
        let newest = changed.iter().map(|namespace| namespace.change_no).max().unwrap_or(0);
        self.seen.fetch_max(newest, Ordering::Relaxed);
        Ok(changed.into_iter().filter_map(|namespace| self.learn(namespace)).collect())
    }

    /// Remembers a namespace as it is now. Returns its name when it was disabled or enabled.
    pub fn learn(&self, namespace: Namespace) -> Option<String> {
        let mut known = self.known.write().expect("nobody panics while holding it");
        let before = known.get(&namespace.name).cloned();
        if before.as_ref().is_some_and(|before| before.namespace == namespace) {
            return None;
        }
        let was_disabled = before.as_ref().is_some_and(|before| before.namespace.disabled_at.is_some());
        let turned = was_disabled != namespace.disabled_at.is_some();
        let live_runs = before.map(|before| before.live_runs.clone()).unwrap_or_default();
        live_runs.forget();
        let name = namespace.name.clone();
        known.insert(name.clone(), Arc::new(Known { namespace, live_runs }));
        let any_seals = known.values().any(|known| known.namespace.limits.seal_payloads);
        self.any_seals.store(any_seals, Ordering::Relaxed);
        turned.then_some(name)
    }

    fn seen(&self, name: &str) -> Option<Arc<Known>> {
        self.known.read().expect("nobody panics while holding it").get(name).cloned()
    }

    /// True when the namespace takes nothing new, as far as this server knows.
    pub fn is_disabled(&self, name: &str) -> bool {
        self.seen(name).is_some_and(|known| known.namespace.disabled_at.is_some())
    }

    /// Whether any namespace seals its payloads, as far as this server knows.
    pub fn any_seals(&self) -> bool {
        self.any_seals.load(Ordering::Relaxed)
    }

    /// Whether this one seals its payloads.
    pub fn seals(&self, name: &str) -> bool {
        self.any_seals() && self.seen(name).is_some_and(|known| known.namespace.limits.seal_payloads)
    }

    /// Refuses what cannot be the name of a new namespace. Those that are there already have the names they have.
    pub fn check(&self, what: &str, name: &str) -> Result<(), Error> {
        check_plain_name(what, name).or_else(|odd| self.seen(name).map(drop).ok_or(odd))
    }

    /// The namespace, made on first use; refused when it takes nothing new.
    async fn open(&self, name: &str) -> Result<Arc<Known>, Error> {
        let known = match self.seen(name) {
            Some(known) => known,
            None => {
                self.check("namespace", name)?;
                let (made, _) = self.store.add_namespace(name, "", NamespaceLimits::default()).await?;
                self.learn(made);
                self.seen(name).ok_or(Error::Internal)?
            }
        };
        match known.namespace.disabled_at {
            Some(_) => Err(Error::NamespaceDisabled(name.to_owned())),
            None => Ok(known),
        }
    }

    /// What the namespace may have. Made on first use; refused when it takes nothing new.
    pub async fn limits(&self, name: &str) -> Result<NamespaceLimits, Error> {
        Ok(self.open(name).await?.namespace.limits)
    }

    /// Takes room for so many runs, or refuses.
    pub async fn admit(&self, name: &str, count: u64) -> Result<Admission, Error> {
        let known = self.open(name).await?;
        let Some(limit) = known.namespace.limits.live_runs_max else { return Ok(Admission::default()) };
        if let Some(admission) = known.live_runs.take(count) {
            return Ok(admission);
        }
        let reached = Error::NamespaceLimit { namespace: name.to_owned(), what: "live runs", limit };
        let live = async |cap| {
            let queues: Vec<_> = self.store.queues(Some(name)).await?.into_iter().map(|queue| queue.id).collect();
            let depths = self.store.depths(&queues, cap).await?;
            Ok(depths.iter().map(|depth| depth.ready + depth.scheduled + depth.held + depth.sleeping).sum())
        };
        known.live_runs.take_counted(count, async || Ok((limit, reached)), live).await
    }
}
