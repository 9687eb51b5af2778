//! A provider that does as it is told: makes machines, refuses, hangs, falls over halfway, or makes what nobody asked for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Mutex;

use async_trait::async_trait;
use baton_core::pools::{Machine, PoolSpec, Usage};
use baton_server::providers::{Create, PoolInfo, Provider, ProviderError, ProviderMachine};

/// How one call of `create` goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mood {
    /// Says no.
    Refuses(&'static str),
    /// Never answers, and makes nothing.
    Hangs,
    /// Never answers for pools whose names begin like this.
    HangsFor(&'static str),
    /// Makes half of what was asked for, and its answer is lost.
    FallsHalfway,
    /// Makes one more than was asked for.
    MakesTooMany,
    /// Names all machines that are there as those of the order.
    NamesOthers,
    /// Says no to spot machines, and makes others.
    HasNoSpot,
    /// Makes half of what was asked for, and says so.
    MakesHalf,
    /// Says that somebody has to mend something.
    IsMisconfigured,
}

#[derive(Debug, Default)]
struct State {
    /// Machines by name, with the token of their order.
    machines: BTreeMap<String, (String, Machine)>,
    asked: Vec<Create>,
    terminated: Vec<String>,
    /// How the next calls go; as they should when there is nothing.
    moods: VecDeque<Mood>,
    /// How all calls go.
    always: Option<Mood>,
    /// Lists leave everything out.
    hides: bool,
    /// Machines that only another server could list.
    elsewhere: BTreeSet<String>,
    lists: usize,
    /// What lists fail with.
    list_fails: Option<&'static str>,
    /// Whatever is not listed is not there.
    lists_all: bool,
}

/// The provider.
#[derive(Debug, Default)]
pub struct Fake(Mutex<State>);

impl Fake {
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().unwrap())
    }

    /// The next call of `create` goes like this.
    pub fn next(&self, mood: Mood) {
        self.with(|state| state.moods.push_back(mood));
    }

    /// All calls of `create` go like this.
    pub fn always(&self, mood: Option<Mood>) {
        self.with(|state| state.always = mood);
    }

    /// Every call of `create`, in order.
    pub fn asked(&self) -> Vec<Create> {
        self.with(|state| state.asked.clone())
    }

    /// Machines that are there, with the token of their order.
    pub fn machines(&self) -> Vec<(String, String)> {
        self.with(|state| state.machines.iter().map(|(id, (token, _))| (id.clone(), token.clone())).collect())
    }

    /// Machines that the server wanted to end, in order.
    pub fn terminated(&self) -> Vec<String> {
        self.with(|state| state.terminated.clone())
    }

    /// A machine that nobody asked for appears.
    pub fn appear(&self, id: &str, token: &str) {
        self.with(|state| state.machines.insert(id.into(), (token.into(), small(Usage::OnDemand))));
    }

    /// Lists leave everything out from now on, or do so no longer.
    pub fn hide(&self, hides: bool) {
        self.with(|state| state.hides = hides);
    }

    /// A machine is on the host of another server, which has fallen with all that was on it.
    pub fn lose_with_its_host(&self, id: &str) {
        self.lose(id);
        self.with(|state| state.elsewhere.insert(id.into()));
    }

    /// Lists fail from now on, or do so no longer.
    pub fn fail_lists(&self, why: Option<&'static str>) {
        self.with(|state| state.list_fails = why);
    }

    /// Whatever is not listed is not there, from now on.
    pub fn list_all(&self) {
        self.with(|state| state.lists_all = true);
    }

    /// How often it was asked what it has.
    pub fn lists(&self) -> usize {
        self.with(|state| state.lists)
    }

    /// A machine goes away by itself.
    pub fn lose(&self, id: &str) {
        self.with(|state| state.machines.remove(id)).expect("there is such a machine");
    }
}

impl State {
    fn make(&mut self, wanted: &Create, count: u32) -> Vec<ProviderMachine> {
        let ids = (0..count).map(|number| format!("{}-{number}", &wanted.token[..8]));
        // The same token makes the same machines: those that were ended do not come back.
        let ids: Vec<String> = ids.filter(|id| !self.terminated.contains(id)).collect();
        ids.into_iter().map(|id| self.make_one(id, wanted)).collect()
    }

    fn make_one(&mut self, id: String, wanted: &Create) -> ProviderMachine {
        // Of the first type that it is asked for by name.
        let kind = wanted.types.iter().find(|kind| !kind.contains('*')).cloned();
        let small = small(wanted.usage);
        let made = Machine { kind: kind.unwrap_or_else(|| small.kind.clone()), ..small };
        self.machines.insert(id.clone(), (wanted.token.clone(), made.clone()));
        machine(&id, &wanted.token, made)
    }
}

fn small(usage: Usage) -> Machine {
    Machine { kind: "fake.small".into(), usage, cpu: 1, memory_mib: 1_024 }
}

fn machine(id: &str, token: &str, machine: Machine) -> ProviderMachine {
    ProviderMachine { id: id.into(), token: Some(token.into()), machine }
}

/// Refuses options that it does not know, as providers do, with every call.
fn check_options(pool: &PoolInfo) -> Result<(), ProviderError> {
    match pool.spec.options.keys().find(|name| name.starts_with("github.")) {
        Some(name) => Err(ProviderError::Misconfigured(format!("the provider fake knows no {name}"))),
        None => Ok(()),
    }
}

#[async_trait]
impl Provider for Fake {
    fn check(&self, spec: &PoolSpec) -> Result<(), String> {
        match spec.options.contains_key("wrong") {
            true => Err("options: wrong is wrong".into()),
            false => Ok(()),
        }
    }

    fn runs_here(&self) -> bool {
        false
    }

    async fn create(&self, wanted: &Create) -> Result<Vec<ProviderMachine>, ProviderError> {
        check_options(&wanted.pool)?;
        let answer = self.with(|state| {
            state.asked.push(wanted.clone());
            let mood = state.moods.pop_front().or_else(|| state.always.clone());
            match mood {
                Some(Mood::Refuses(why)) => Some(Err(ProviderError::Refused(why.into()))),
                Some(Mood::Hangs) => None,
                Some(Mood::HangsFor(name)) if wanted.pool.name.starts_with(name) => None,
                Some(Mood::FallsHalfway) => {
                    state.make(wanted, wanted.count / 2);
                    Some(Err(ProviderError::Unclear("fell over".into())))
                }
                Some(Mood::MakesTooMany) => {
                    let mut made = state.make(wanted, wanted.count);
                    made.push(state.make_one(format!("{}-too-many", &wanted.token[..8]), wanted));
                    Some(Ok(made))
                }
                Some(Mood::NamesOthers) => {
                    state.make(wanted, wanted.count);
                    let named = state.machines.iter().map(|(id, (_, made))| machine(id, &wanted.token, made.clone()));
                    Some(Ok(named.collect()))
                }
                Some(Mood::MakesHalf) => Some(Ok(state.make(wanted, wanted.count / 2))),
                Some(Mood::IsMisconfigured) => Some(Err(ProviderError::Misconfigured("no rights".into()))),
                Some(Mood::HasNoSpot) if wanted.usage == Usage::Spot => {
                    Some(Err(ProviderError::Refused("no spot capacity".into())))
                }
                Some(Mood::HasNoSpot | Mood::HangsFor(_)) | None => Some(Ok(state.make(wanted, wanted.count))),
            }
        });
        match answer {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }

    async fn terminate(&self, pool: &PoolInfo, machines: &[String]) -> Result<(), ProviderError> {
        check_options(pool)?;
        self.with(|state| {
            for id in machines {
                state.machines.remove(id);
                state.terminated.push(id.clone());
            }
        });
        Ok(())
    }

    async fn list(&self, pool: &PoolInfo) -> Result<Vec<ProviderMachine>, ProviderError> {
        check_options(pool)?;
        let listed = |state: &mut State| {
            state.lists += 1;
            if let Some(why) = state.list_fails {
                return Err(ProviderError::Unclear(why.into()));
            }
            let shown = state.machines.iter().filter(|_| !state.hides);
            Ok(shown.map(|(id, (token, made))| machine(id, token, made.clone())).collect())
        };
        self.with(listed)
    }

    fn lists_all(&self) -> bool {
        self.with(|state| state.lists_all)
    }

    fn is_here(&self, machine_id: &str) -> bool {
        self.with(|state| !state.elsewhere.contains(machine_id))
    }
}
