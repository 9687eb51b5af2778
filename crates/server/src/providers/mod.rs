//! Who makes the machines of runner pools: one small trait, behind which everything slow and doubtful is.
//!
//! The store knows first: a machine is asked for under a token that was written down, and ended when its row says so. So every call may be made
//! again after a crash, and a provider only has to keep three promises: the same token makes the same machines, ending what is gone is no
//! error, and what is marked with a pool's tag is listed.

mod agent_options;
mod command;
mod hooks;
mod local;
pub(crate) mod process;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, RwLock};

use async_trait::async_trait;
use baton_core::pools::{Machine, PoolSpec, Usage};

use crate::Settings;
use crate::bell::Bell;

pub use command::CommandProvider;
pub use local::LocalProvider;

/// The provider of a pool that names none.
pub const PROVIDER_DEFAULT: &str = "local";
/// Options of a pool with this prefix are for its agents.
pub const AGENT_PREFIX: &str = "agent.";
/// Longest name of a machine, in bytes.
pub const MACHINE_ID_BYTES_MAX: usize = 200;

/// The pool that a call is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolInfo {
    /// Marks its machines. No other pool, of this installation or another, has the same.
    pub tag: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What it is to be.
    pub spec: PoolSpec,
}

/// Machines that are asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Create {
    /// For which pool.
    pub pool: PoolInfo,
    /// The same token again means the same machines.
    pub token: String,
    /// How many.
    pub count: u32,
    /// How they are paid for.
    pub usage: Usage,
    /// Of these types, as patterns, besides being of the pool's. None: any of those.
    pub types: Vec<String>,
    /// What their agents are started with, besides `BATON_MACHINE_ID`. One value is a credential.
    pub environment: BTreeMap<String, String>,
}

/// A machine, as its provider knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProviderMachine {
    /// The provider's name for it.
    pub id: String,
    /// The token it was created under, where that is known.
    pub token: Option<String>,
    /// What it is.
    pub machine: Machine,
}

/// Why a provider did not do what it was asked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProviderError {
    /// It says no: there is no use in asking for the same again. Other machines may be had; a pool of spot machines tries those on demand.
    #[error("{0}")]
    Refused(String),
    /// It says no, and would say so to any machine: somebody has to mend a setting, or give rights.
    #[error("{0}")]
    Misconfigured(String),
    /// Nobody knows what became of it: the same is asked again.
    #[error("{0}")]
    Unclear(String),
}

/// Where the agents of a provider's machines run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AgentPlace {
    /// On the machine of this server.
    Here,
    /// On machines of their own.
    Elsewhere,
    /// Only whoever made the provider knows.
    Anywhere,
}

/// Makes, ends and lists machines.
#[async_trait]
pub trait Provider: Send + Sync + fmt::Debug {
    /// Says what is wrong with the options of a pool, in words for the person who wrote them.
    fn check(&self, spec: &PoolSpec) -> Result<(), String>;

    /// True when whoever makes pools decides what runs on the machine of this server, or in its name.
    fn runs_here(&self) -> bool;

    /// Where the agents of its machines run, and look for the server from.
    fn agents_run(&self) -> AgentPlace {
        AgentPlace::Anywhere
    }

    /// Patterns that the types of this pool's machines are like. None: it is not known beforehand what they will be.
    fn kinds(&self, spec: &PoolSpec) -> Vec<String> {
        spec.types.clone()
    }

    /// Makes machines. The same token again gives the same machines; fewer than asked for is no error, and the rest is asked for again.
    async fn create(&self, wanted: &Create) -> Result<Vec<ProviderMachine>, ProviderError>;

    /// Begins to end machines. Those that are gone are no error.
    async fn terminate(&self, pool: &PoolInfo, machines: &[String]) -> Result<(), ProviderError>;

    /// Every machine with the pool's tag that still costs something.
    async fn list(&self, pool: &PoolInfo) -> Result<Vec<ProviderMachine>, ProviderError>;

    /// True when whatever is not listed is not there. A cloud leaves out what it has just made, and a script what it stumbles over.
    fn lists_all(&self) -> bool {
        false
    }

    /// Whether this server's provider would list this machine, were it there. A cloud lists all; processes are listed where they run.
    fn is_here(&self, machine_id: &str) -> bool {
        let _ = machine_id;
        true
    }
}

/// Machines that ended by themselves, with their last words, until somebody has taken note of that.
#[derive(Debug)]
pub struct Ended {
    machines: Mutex<BTreeMap<String, String>>,
    bell: Arc<Bell>,
}

impl Ended {
    /// Rings this bell for each.
    pub fn new(bell: Arc<Bell>) -> Ended {
        Ended { machines: Mutex::default(), bell }
    }

    fn with<T>(&self, change: impl FnOnce(&mut BTreeMap<String, String>) -> T) -> T {
        change(&mut self.machines.lock().expect("nobody panics while holding it"))
    }

    /// This one did.
    pub fn add(&self, machine_id: String, last_words: String) {
        self.with(|machines| machines.insert(machine_id, last_words));
        self.bell.ring();
    }

    /// All of them.
    pub fn all(&self) -> BTreeMap<String, String> {
        self.with(|machines| machines.clone())
    }

    /// Somebody has taken note of this one.
    pub fn forget(&self, machine_id: &str) {
        self.with(|machines| machines.remove(machine_id));
    }
}

/// The providers of this server, by name.
#[derive(Debug, Default)]
pub struct Providers(RwLock<BTreeMap<String, Arc<dyn Provider>>>);

impl Providers {
    /// Those that come with the server.
    pub fn new(settings: &Settings, ended: &Arc<Ended>) -> Providers {
        let providers = Providers::default();
        let local = LocalProvider::new(settings.data.join("pools"), ended.clone());
        providers.add(PROVIDER_DEFAULT, Arc::new(local));
        if let Some(directory) = &settings.pool_command_directory {
            let output_max = settings.pool_command_output_bytes_max;
            providers.add("command", Arc::new(CommandProvider::new(directory.into(), output_max)));
        }
        providers
    }

    /// Adds a provider, or puts it in the place of another.
    pub fn add(&self, name: &str, provider: Arc<dyn Provider>) {
        self.0.write().expect("nobody panics while holding it").insert(name.to_owned(), provider);
    }

    /// The provider with this name.
    pub fn get(&self, name: &str) -> Option<Arc<dyn Provider>> {
        self.0.read().expect("nobody panics while holding it").get(name).cloned()
    }

    /// All names.
    pub fn names(&self) -> Vec<String> {
        self.0.read().expect("nobody panics while holding it").keys().cloned().collect()
    }
}

/// The variables that a pool's options set for its agents: `agent.register_hook` is `BATON_AGENT_REGISTER_HOOK`.
pub fn agent_variables(options: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let own = |(name, value): (&String, &String)| {
        let name = name.strip_prefix(AGENT_PREFIX)?.to_ascii_uppercase();
        Some((format!("BATON_AGENT_{name}"), value.clone()))
    };
    options.iter().filter_map(own).collect()
}

/// Says what is wrong with the names of options.
pub(crate) fn check_options(options: &BTreeMap<String, String>) -> Result<(), String> {
    const OPTIONS_MAX: usize = 100;
    const VALUE_BYTES_MAX: usize = 16 * 1024;
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '.');
    if options.len() > OPTIONS_MAX {
        return Err(format!("options may have at most {OPTIONS_MAX} entries"));
    }
    for (name, value) in options {
        if name.is_empty() || name.len() > 100 || !name.chars().all(is_plain) {
            return Err(format!("options: {name:?} must be 1 to 100 small letters, digits, '_' and '.'"));
        }
        if value.len() > VALUE_BYTES_MAX || value.contains('\0') {
            return Err(format!("options: {name} must have at most {VALUE_BYTES_MAX} bytes, and no NUL"));
        }
    }
    agent_options::check(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_with_the_prefix_become_variables_of_the_agent() {
        let options = BTreeMap::from([
            ("agent.register_hook".to_owned(), "true".to_owned()),
            ("script".to_owned(), "mine".to_owned()),
        ]);
        let variables = agent_variables(&options);
        assert_eq!(variables, BTreeMap::from([("BATON_AGENT_REGISTER_HOOK".to_owned(), "true".to_owned())]));
    }

    #[test]
    fn names_of_options_are_plain() {
        let one = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        assert_eq!(check_options(&one("agent.work_directory", "/x")), Ok(()));
        for (name, value) in [("", "x"), ("A", "x"), ("a b", "x"), ("a=b", "x"), ("a", "\0")] {
            assert!(check_options(&one(name, value)).is_err(), "{name:?}");
        }
    }
}
