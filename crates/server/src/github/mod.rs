//! GitHub, as far as runner pools need it: runners are made, found and removed there, with a token that never leaves this server.
//!
//! A runner of ours has one name at GitHub for as long as it lives. So whatever became of a call whose answer was lost, the next one finds what that has left, and
//! puts another in its place.

mod calls;
mod scope;
mod secret;

use std::collections::HashMap;
use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use baton_core::Millis;
use baton_store::PoolNo;
use http::Method;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use calls::Calls;

pub use calls::Failure;
pub use scope::{GithubScope, Method as RegistrationMethod};
pub use secret::Secret;

use crate::Settings;
use crate::entropy::Entropy;

/// How long GitHub is tried for one thing, at most.
pub const TRY_MAX: Duration = Duration::from_secs(25);
/// How often a runner of the same name is put out of the way before that is given up.
const REPLACEMENTS_MAX: usize = 5;
/// Runners in one page, the most that GitHub gives.
const PAGE: usize = 100;
/// Most pages of runners that are read.
const PAGES_MAX: usize = 50;
/// The runner group that every repository and every organization has.
const GROUP_DEFAULT: u64 = 1;
/// Where jobs work, below the directory of the runner.
const WORK_FOLDER: &str = "_work";
/// How long a pool waits before GitHub is asked again that has refused its runners, at least and at
/// most.
const ASK_AGAIN_MS: Millis = 30_000;
const ASK_AGAIN_MS_MAX: Millis = 3_600_000;
/// Calls of GitHub at once; more are not welcome there.
const CALLS_MAX: usize = 8;

/// What a machine needs to be a runner at GitHub.
#[derive(Clone, PartialEq, Eq)]
pub enum Minted {
    /// A configuration for one runner.
    Jit(String),
    /// A token to register with, for an hour.
    Token(String),
}

/// Why there is nothing that a machine could register with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotMinted {
    /// GitHub refuses or does not answer, whichever machine it is: what it said, and how long it
    /// does not want to be asked again.
    Github { why: String, after: Option<Duration> },
    /// This runner's name cannot be had; another one's may.
    Name(String),
}

impl From<Failure> for NotMinted {
    fn from(failure: Failure) -> NotMinted {
        NotMinted::Github { why: failure.to_string(), after: failure.after() }
    }
}

// Neither is for anybody's eyes.
impl fmt::Debug for Minted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Minted::Jit(_) => "Jit(***)",
            Minted::Token(_) => "Token(***)",
        })
    }
}

/// A runner, as GitHub lists it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    pub id: u64,
    pub name: String,
}

/// What became of a runner that was to be removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Removed {
    /// It is not there, or not any more.
    Gone,
    /// It has a job, by what GitHub knows, and cannot be removed now.
    Busy,
}

/// The way to GitHub.
#[derive(Debug)]
pub struct Github {
    calls: Calls,
    permits: Semaphore,
    /// When it was last compared with what the store knows.
    pub(crate) swept_at: Mutex<Option<Millis>>,
    /// Pools that GitHub refuses runners for: what it said, and when it is asked again whether it would.
    held: Mutex<HashMap<PoolNo, (String, Millis)>>,
}

/// One thing that is wanted of GitHub: for which pool, with which settings, until when it is tried.
pub struct Errand<'a> {
    github: &'a Github,
    settings: &'a Settings,
    scope: &'a GithubScope,
    entropy: &'a dyn Entropy,
    until: Instant,
}

impl Default for Github {
    fn default() -> Github {
        Github {
            calls: Calls::default(),
            permits: Semaphore::new(CALLS_MAX),
            swept_at: Mutex::default(),
            held: Mutex::default(),
        }
    }
}

impl Github {
    fn held<T>(&self, change: impl FnOnce(&mut HashMap<PoolNo, (String, Millis)>) -> T) -> T {
        change(&mut self.held.lock().expect("nobody panics while holding it"))
    }

    /// GitHub refuses runners for a pool: nobody takes machines of it until it does no longer.
    pub(crate) fn hold(&self, pool: PoolNo, why: &str, after: Option<Duration>, now: Millis) {
        let told = after.map_or(0, |after| Millis::try_from(after.as_millis()).unwrap_or(Millis::MAX));
        let again_at = now.saturating_add(told.clamp(ASK_AGAIN_MS, ASK_AGAIN_MS_MAX));
        self.held(|held| held.insert(pool, (why.to_owned(), again_at)));
    }

    /// What it said, if it does.
    pub(crate) fn refuses(&self, pool: PoolNo) -> Option<String> {
        self.held(|held| held.get(&pool).map(|(why, _)| why.clone()))
    }

    /// Whether GitHub is to be asked again for this pool. If so, it is being asked, and not again before it is held once more.
    pub(crate) fn asks_again(&self, pool: PoolNo, now: Millis) -> bool {
        self.held(|held| match held.get_mut(&pool) {
            Some((_, again_at)) if *again_at <= now => {
                *again_at = Millis::MAX;
                true
            }
            Some(_) | None => false,
        })
    }

    /// GitHub does what it refused.
    pub(crate) fn let_go(&self, pool: PoolNo) {
        self.held(|held| held.remove(&pool));
    }

    /// Begins something that is tried for at most so long.
    pub fn errand<'a>(
        &'a self,
        settings: &'a Settings,
        scope: &'a GithubScope,
        entropy: &'a dyn Entropy,
        most: Duration,
    ) -> Errand<'a> {
        Errand { github: self, settings, scope, entropy, until: Instant::now() + most.min(TRY_MAX) }
    }
}

impl Errand<'_> {
    /// Has GitHub expect a runner with this name, and with this label as its only one. One of the same name that is there makes way.
    pub async fn mint(&self, name: &str, label: &str) -> Result<Minted, NotMinted> {
        match self.scope.method {
            RegistrationMethod::Token => self.token().await,
            RegistrationMethod::Jit => self.jit(name, label).await,
        }
    }

    async fn jit(&self, name: &str, label: &str) -> Result<Minted, NotMinted> {
        let wanted = json!({
            "name": name,
            "runner_group_id": self.scope.group.unwrap_or(GROUP_DEFAULT),
            "labels": [label],
            "work_folder": WORK_FOLDER,
        });
        for _ in 0..REPLACEMENTS_MAX {
            match self.call(Method::POST, "/generate-jitconfig", Some(&wanted)).await {
                Ok(answer) => {
                    let config = answer["encoded_jit_config"].as_str().filter(|config| !config.is_empty());
                    let minted = config.map(|config| Minted::Jit(config.into()));
                    return minted.ok_or_else(|| lacks("encoded_jit_config").into());
                }
                // A call before this one, whose answer nobody got, or a run before this one, which nobody took back.
                Err(Failure::Answered { status: 409, .. }) => {
                    if self.remove(name).await? == Removed::Busy {
                        return Err(NotMinted::Name(format!("GitHub has a runner {name} that is at work")));
                    }
                }
                // An Enterprise server that does not know of such configurations yet; or there is nothing here for us at all, and then it says so again. A group that is not
                // there is told in the same way, and whoever named one does not want the default group.
                Err(Failure::Answered { status: 404, .. }) if self.scope.group.is_none() => return self.token().await,
                Err(failure) => return Err(failure.into()),
            }
        }
        Err(NotMinted::Name(format!("GitHub says again and again that there is a runner {name}")))
    }

    async fn token(&self) -> Result<Minted, NotMinted> {
        let answer = self.call(Method::POST, "/registration-token", None).await?;
        answer["token"].as_str().map(|token| Minted::Token(token.into())).ok_or_else(|| lacks("token").into())
    }

    /// Removes the runner with this name. That there is none is fine.
    pub async fn remove(&self, name: &str) -> Result<Removed, Failure> {
        let mut removed = Removed::Gone;
        for found in self.find(Some(name)).await? {
            if self.remove_one(&found).await? == Removed::Busy {
                removed = Removed::Busy;
            }
        }
        Ok(removed)
    }

    /// Removes this one and no other, whatever its name is by now.
    pub async fn remove_one(&self, listed: &Listed) -> Result<Removed, Failure> {
        match self.call(Method::DELETE, &format!("/{}", listed.id), None).await {
            Ok(_) | Err(Failure::Answered { status: 404, .. }) => Ok(Removed::Gone),
            Err(Failure::Answered { status: 422, .. }) => Ok(Removed::Busy),
            Err(failure) => Err(failure),
        }
    }

    /// Whether GitHub would say anything at all about runners.
    pub async fn probe(&self) -> Result<(), Failure> {
        self.call(Method::GET, "?per_page=1", None).await.map(|_| ())
    }

    /// All runners there are, or those with this name.
    pub async fn find(&self, name: Option<&str>) -> Result<Vec<Listed>, Failure> {
        let mut found = Vec::new();
        for page in 1..=PAGES_MAX {
            let only = name.map(|name| format!("&name={name}")).unwrap_or_default();
            let query = format!("?per_page={PAGE}&page={page}{only}");
            let answer = self.call(Method::GET, &query, None).await?;
            let runners = answer["runners"].as_array().ok_or_else(|| lacks("runners"))?;
            let listed = runners.iter().filter_map(|runner| {
                Some(Listed { id: runner["id"].as_u64()?, name: runner["name"].as_str()?.to_owned() })
            });
            // Old servers do not know how to look for a name, and list all.
            found.extend(listed.filter(|listed| name.is_none_or(|name| name == listed.name)));
            if runners.len() < PAGE || (name.is_some() && !found.is_empty()) {
                break;
            }
        }
        Ok(found)
    }

    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        let busy = |_| Failure::Silent("too many others wait for GitHub".into());
        let _permit = timeout_at(self.until, self.github.permits.acquire()).await.map_err(busy)?;
        let url = format!("{}{}{path}", self.settings.github_api(), self.scope.path());
        self.github.calls.until(self.until, self.settings, self.entropy, method, &url, body).await
    }
}

fn lacks(what: &str) -> Failure {
    Failure::Silent(format!("GitHub's answer has no {what}"))
}
