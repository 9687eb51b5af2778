//! Blocks on the way to series: what each group of subjects had in each step.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_core::statistics::{Block, Bucket, Kind, Measure, Numbers, Subject, Together, Window};
use baton_core::{Millis, Reason};
use baton_proto::Series;

use super::names::Name;
use super::{By, LOOKED_WITHIN, Named};
use crate::statistics::Blocks;

/// What is shown as one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Group {
    /// Everything that the caller sees.
    All,
    /// A queue or a pool.
    One(Subject),
    /// Queues or pools that are not listed by themselves.
    Others,
}

/// A step.
#[derive(Debug, Default)]
struct Step {
    /// True when a server was up.
    is_up: bool,
    looks: u64,
    /// Namespaces that had more queues or pools than are told apart. Empty for all of them.
    untold: BTreeSet<(Kind, Arc<str>)>,
}

/// What is to be shown.
#[derive(Debug)]
pub(super) struct Chart {
    window: Window,
    /// Only of this namespace.
    pub(super) namespace: Option<Arc<str>>,
    /// Only of this queue.
    pub(super) queue: Option<Arc<str>>,
    /// Only of this pool.
    pub(super) pool: Option<Arc<str>>,
    /// What is listed besides the sums.
    by: Option<Kind>,
    listed: Vec<Subject>,
    steps: Vec<Step>,
    groups: BTreeMap<Group, BTreeMap<usize, Numbers>>,
}

impl Chart {
    pub(super) fn new(window: Window) -> Chart {
        Chart {
            window,
            namespace: None,
            queue: None,
            pool: None,
            by: None,
            listed: Vec::new(),
            steps: (0..window.count).map(|_| Step::default()).collect(),
            groups: BTreeMap::new(),
        }
    }

    /// True when the caller sees it and has asked for it.
    fn shows(&self, subject: &Subject) -> bool {
        let is_own = self.namespace.as_ref().is_none_or(|namespace| *namespace == subject.namespace);
        let of = |wanted: &Option<Arc<str>>| wanted.as_ref().is_none_or(|name| *name == subject.name);
        is_own
            && match subject.kind {
                Kind::Queue => of(&self.queue),
                Kind::Pool => of(&self.pool),
                Kind::Workers => true,
            }
    }

    /// Chooses what is listed: of what fits, the deepest at the last look, then the busiest.
    pub(super) fn list(&mut self, by: By, blocks: &Blocks, limit: usize) {
        let kind = match by {
            By::Queue => Kind::Queue,
            By::Pool => Kind::Pool,
        };
        self.by = Some(kind);
        let (mut last_look, mut weights) = (Millis::MIN, BTreeMap::<Subject, (Millis, u64, u64)>::new());
        blocks.each(|block| {
            for (at, bucket) in self.inside(block) {
                if bucket.looks > 0 {
                    last_look = last_look.max(at);
                }
                let subjects =
                    bucket.subjects.iter().filter(|(subject, _)| subject.kind == kind && self.shows(subject));
                for (subject, numbers) in subjects.filter(|(subject, _)| !subject.name.is_empty()) {
                    let (seen_at, depth, busy) = weights.entry(subject.clone()).or_default();
                    if bucket.looks > 0 && at >= *seen_at {
                        (*seen_at, *depth) = (at, numbers.get(Measure::Ready) / bucket.looks);
                    }
                    let counted = Measure::ALL.into_iter().filter(|measure| measure.together() == Together::Count);
                    *busy = counted.fold(*busy, |sum, measure| sum.saturating_add(numbers.get(measure)));
                }
            }
        });
        let depth = |(seen_at, depth, busy): (Millis, u64, u64)| (if seen_at == last_look { depth } else { 0 }, busy);
        let mut ranked: Vec<_> =
            weights.into_iter().map(|(subject, weight)| (Reverse(depth(weight)), subject)).collect();
        ranked.sort();
        self.listed = ranked.into_iter().take(limit).map(|(_, subject)| subject).collect();
    }

    /// The buckets of a block that are to be seen.
    fn inside<'a>(&self, block: &'a Block) -> impl Iterator<Item = (Millis, &'a Bucket)> + use<'a> {
        let window = self.window;
        block.buckets.iter().map(|(at, bucket)| (*at, bucket)).filter(move |(at, _)| window.index(*at).is_some())
    }

    /// Adds what a block tells.
    pub(super) fn add(&mut self, block: &Block) {
        for (at, bucket) in self.inside(block) {
            let Some(index) = self.window.index(at) else { continue };
            let step = &mut self.steps[index];
            step.is_up = true;
            step.looks = step.looks.saturating_add(bucket.looks);
            for (subject, numbers) in &bucket.subjects {
                if subject.name.is_empty() && subject.kind != Kind::Workers || subject.namespace.is_empty() {
                    self.steps[index].untold.insert((subject.kind, subject.namespace.clone()));
                }
                if self.shows(subject) {
                    self.group(Group::All, index, numbers);
                    if self.by == Some(subject.kind) {
                        let is_listed = self.listed.contains(subject);
                        let group = if is_listed { Group::One(subject.clone()) } else { Group::Others };
                        self.group(group, index, numbers);
                    }
                }
            }
        }
    }

    fn group(&mut self, group: Group, index: usize, numbers: &Numbers) {
        self.groups.entry(group).or_default().entry(index).or_default().merge(numbers);
    }

    /// The series, without the first `lead` steps.
    pub(super) fn series(&self, names: &[Named], lead: usize) -> Vec<Series> {
        let mut groups = vec![Group::All];
        groups.extend(self.listed.iter().cloned().map(Group::One));
        groups.extend(self.groups.contains_key(&Group::Others).then_some(Group::Others));
        let mut all = Vec::new();
        for group in &groups {
            let is_sum = *group == Group::All;
            for (name, what) in names.iter().filter(|(_, what)| is_sum || Some(what.kind()) == self.by) {
                let mut values = self.values(group, *what);
                values.drain(..lead);
                all.push(Series { values, ..self.head(group, name) });
            }
        }
        all
    }

    fn head(&self, group: &Group, name: &str) -> Series {
        let mut head = Series {
            name: name.to_owned(),
            namespace: None,
            queue: None,
            pool: None,
            other: false,
            values: Vec::new(),
        };
        match group {
            // What was asked for by its name is told by it.
            Group::All => {
                let text = |name: &Option<Arc<str>>| name.as_ref().map(|name| name.to_string());
                (head.namespace, head.queue, head.pool) = (text(&self.namespace), text(&self.queue), text(&self.pool));
            }
            Group::One(subject) => {
                head.namespace = Some(subject.namespace.to_string());
                let name = Some(subject.name.to_string());
                match subject.kind {
                    Kind::Pool => head.pool = name,
                    Kind::Queue | Kind::Workers => head.queue = name,
                }
            }
            Group::Others => head.other = true,
        }
        head
    }

    /// The value of each step.
    fn values(&self, group: &Group, what: Name) -> Vec<Option<f64>> {
        let nothing = Numbers::default();
        let found = self.groups.get(group);
        let mut seen: Option<(usize, f64)> = None;
        let mut values = Vec::with_capacity(self.steps.len());
        for (index, step) in self.steps.iter().enumerate() {
            let numbers = found.and_then(|steps| steps.get(&index));
            if !step.is_up {
                seen = None;
                values.push(None);
                continue;
            }
            if numbers.is_none() && self.is_untold(group, what.kind(), step) {
                values.push(None);
                continue;
            }
            let numbers = numbers.unwrap_or(&nothing);
            values.push(match what {
                Name::Wait(part) => numbers.wait.quantile(part).map(|ms| ms as f64),
                Name::Duration(part) => numbers.duration.quantile(part).map(|ms| ms as f64),
                Name::Failed => Some(Reason::ALL.iter().map(|why| numbers.get(Measure::Failed(*why)) as f64).sum()),
                Name::Number(measure) => match measure.together() {
                    Together::Count => Some(numbers.get(measure) as f64),
                    Together::Level | Together::Peak => {
                        let level = numbers.get(measure) as f64;
                        if step.looks > 0 {
                            let is_mean = measure.together() == Together::Level;
                            let mean = if is_mean { level / step.looks as f64 } else { level };
                            seen = Some((index, (mean * 100.0).round() / 100.0));
                        }
                        let is_fresh = |at: usize| (index - at) as Millis * self.window.step_ms <= LOOKED_WITHIN;
                        seen.filter(|(at, _)| *at == index || is_fresh(*at)).map(|(_, level)| level)
                    }
                },
            });
        }
        values
    }

    /// True when what is not there may have been counted with others.
    fn is_untold(&self, group: &Group, kind: Kind, step: &Step) -> bool {
        let has = |namespace: &str| step.untold.contains(&(kind, namespace.into()));
        match group {
            Group::One(subject) => has(&subject.namespace) || has(""),
            Group::All => match (&self.namespace, self.queue.as_ref().or(self.pool.as_ref())) {
                (Some(namespace), Some(_)) => has(namespace) || has(""),
                (Some(_), None) => has(""),
                (None, Some(_)) => step.untold.iter().any(|(of, _)| *of == kind),
                (None, None) => false,
            },
            Group::Others => false,
        }
    }
}
