//! What happened in a stretch of time, by what it happened to.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Histogram, MEASURES, Measure, Together};
use crate::Millis;

/// What something is a part of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// Runs, by queue.
    Queue,
    /// Workers, by namespace.
    Workers,
    /// Machines and claims of them, by pool.
    Pool,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 3] = [Kind::Queue, Kind::Workers, Kind::Pool];
}

/// What numbers are about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Subject {
    /// What it is.
    pub kind: Kind,
    /// Its namespace. Empty for what is counted together across namespaces because there are too many.
    pub namespace: Arc<str>,
    /// Its name. Empty for workers, and for what is counted together because there is too much of it.
    pub name: Arc<str>,
}

impl Subject {
    /// A queue.
    pub fn queue(namespace: &str, name: &str) -> Subject {
        Subject { kind: Kind::Queue, namespace: namespace.into(), name: name.into() }
    }

    /// The workers of a namespace.
    pub fn workers(namespace: &str) -> Subject {
        Subject { kind: Kind::Workers, namespace: namespace.into(), name: "".into() }
    }

    /// A runner pool.
    pub fn pool(namespace: &str, name: &str) -> Subject {
        Subject { kind: Kind::Pool, namespace: namespace.into(), name: name.into() }
    }

    /// What those of its kind and namespace are counted as that are not told apart.
    pub fn rest(&self) -> Subject {
        Subject { name: "".into(), ..self.clone() }
    }

    /// What those of its kind are counted as whose namespaces are not told apart.
    fn rest_of_all(&self) -> Subject {
        Subject { kind: self.kind, namespace: "".into(), name: "".into() }
    }
}

/// The numbers of one subject.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Numbers {
    numbers: [u64; MEASURES],
    /// How long runs had been due when they were claimed.
    pub wait: Histogram,
    /// How long runs took that ended, from their last claim.
    pub duration: Histogram,
}

impl Default for Numbers {
    fn default() -> Numbers {
        Numbers { numbers: [0; MEASURES], wait: Histogram::default(), duration: Histogram::default() }
    }
}

impl Numbers {
    /// A number. Levels are the sum of all looks.
    pub fn get(&self, measure: Measure) -> u64 {
        self.numbers[measure.place()]
    }

    /// Adds to a number, as two measurements of it are put together.
    pub fn add(&mut self, measure: Measure, number: u64) {
        let sum = &mut self.numbers[measure.place()];
        *sum = match measure.together() {
            Together::Count | Together::Level => sum.saturating_add(number),
            Together::Peak => number.max(*sum),
        };
    }

    /// Adds what was measured elsewhere, or at another time.
    pub fn merge(&mut self, other: &Numbers) {
        for measure in Measure::ALL {
            self.add(measure, other.get(measure));
        }
        self.wait.merge(&other.wait);
        self.duration.merge(&other.duration);
    }

    /// True when there is nothing but zeros.
    pub fn is_empty(&self) -> bool {
        self.numbers.iter().all(|number| *number == 0) && self.wait.is_empty() && self.duration.is_empty()
    }

    /// How much there is to tell: the busiest are told apart.
    fn weight(&self) -> u64 {
        let counted = Measure::ALL.into_iter().filter(|measure| measure.together() != Together::Peak);
        counted.fold(0, |sum, measure| sum.saturating_add(self.get(measure)))
    }
}

/// What happened in a stretch of time in which a server was up.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Bucket {
    /// How often somebody looked how much there is: levels are divided by this.
    pub looks: u64,
    /// By what it is about. What is not there is zero.
    pub subjects: BTreeMap<Subject, Numbers>,
}

impl Bucket {
    /// The numbers of a subject, to be added to. When there are so many of its kind that it gets no place of its own, those
    /// that it is counted with.
    pub fn of(&mut self, subject: Subject, most: usize) -> &mut Numbers {
        let is_known = self.subjects.contains_key(&subject);
        let subject = if is_known || self.subjects.len() < most { subject } else { subject.rest() };
        let is_known = self.subjects.contains_key(&subject);
        let subject = if is_known || self.subjects.len() < 2 * most { subject } else { subject.rest_of_all() };
        self.subjects.entry(subject).or_default()
    }

    /// Adds what was measured elsewhere, or at another time.
    pub fn merge(&mut self, other: &Bucket) {
        self.looks = self.looks.saturating_add(other.looks);
        for (subject, numbers) in &other.subjects {
            self.subjects.entry(subject.clone()).or_default().merge(numbers);
        }
    }
}

/// Buckets of the same length, by the moment at which each begins. A stretch without a bucket is a gap: no server was up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// How long each bucket is.
    pub step_ms: Millis,
    /// The buckets.
    pub buckets: BTreeMap<Millis, Bucket>,
}

impl Block {
    /// Without a bucket yet.
    pub fn new(step_ms: Millis) -> Block {
        Block { step_ms, buckets: BTreeMap::new() }
    }

    /// Adds what another block tells of the same time. One with shorter buckets is made coarser.
    pub fn merge(&mut self, other: &Block) {
        for (at, bucket) in &other.buckets {
            self.buckets.entry(super::floor(*at, self.step_ms)).or_default().merge(bucket);
        }
    }

    /// Of each kind tells the busiest apart, so many at most, and the others together: those of a namespace, and only when
    /// there are too many of these, of all namespaces.
    pub fn fold(&mut self, most: usize) {
        let rename = self.folded(most);
        if rename.is_empty() {
            return;
        }
        for bucket in self.buckets.values_mut() {
            for (from, to) in &rename {
                if let Some(numbers) = bucket.subjects.remove(from) {
                    bucket.subjects.entry(to.clone()).or_default().merge(&numbers);
                }
            }
        }
    }

    /// Which subjects are counted as which others.
    fn folded(&self, most: usize) -> BTreeMap<Subject, Subject> {
        let mut weights: BTreeMap<&Subject, u64> = BTreeMap::new();
        for (subject, numbers) in self.buckets.values().flat_map(|bucket| &bucket.subjects) {
            let weight = weights.entry(subject).or_default();
            *weight = weight.saturating_add(numbers.weight());
        }
        let mut rename = BTreeMap::new();
        for kind in Kind::ALL {
            let of_kind = || weights.iter().filter(|(subject, _)| subject.kind == kind);
            let mut named: Vec<_> = of_kind().filter(|(subject, _)| !subject.name.is_empty()).collect();
            named.sort_by_key(|(_, weight)| Reverse(**weight));
            let gone = named.split_off(named.len().min(most));
            let mut rests: BTreeMap<Subject, u64> = BTreeMap::new();
            let together = of_kind().filter(|(subject, _)| subject.name.is_empty());
            for (subject, weight) in together.chain(gone.iter().copied()) {
                let sum = rests.entry(subject.rest()).or_default();
                *sum = sum.saturating_add(*weight);
            }
            let mut by_weight: Vec<_> = rests.into_iter().filter(|(rest, _)| !rest.namespace.is_empty()).collect();
            by_weight.sort_by_key(|(_, weight)| Reverse(*weight));
            let lost: BTreeSet<Subject> =
                by_weight.split_off(by_weight.len().min(most)).into_iter().map(|(rest, _)| rest).collect();
            for (subject, _) in gone {
                let rest = subject.rest();
                let to = if lost.contains(&rest) { rest.rest_of_all() } else { rest };
                rename.insert((*subject).clone(), to);
            }
            rename.extend(lost.into_iter().map(|rest| (rest.clone(), rest.rest_of_all())));
        }
        rename
    }
}
