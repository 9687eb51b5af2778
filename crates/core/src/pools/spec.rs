//! What a pool is to be, what a claim wants, and which machine fits it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cron::{Cron, ZONE_DEFAULT};
use crate::{Millis, retry};

/// Most machines of a pool.
pub const SIZE_MAX: u32 = 10_000;
/// Most cores of a machine.
pub const CPU_MAX: u32 = 100_000;
/// Most memory of a machine.
pub const MEMORY_MIB_MAX: u64 = 1 << 40;
/// Most patterns in a list of types.
pub const TYPES_MAX: usize = 100;
/// Longest pattern, or type of a machine, in bytes.
pub const TYPE_BYTES_MAX: usize = 200;
/// Most rules for min_idle.
pub const RULES_MAX: usize = 50;

/// How a machine is paid for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Usage {
    /// For as long as it is wanted.
    #[default]
    OnDemand,
    /// Cheaper, and taken away when others pay more.
    Spot,
}

impl Usage {
    /// Every usage class.
    pub const ALL: [Usage; 2] = [Usage::OnDemand, Usage::Spot];

    /// The word used on the wire and in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Usage::OnDemand => "on_demand",
            Usage::Spot => "spot",
        }
    }

    /// The number kept in the store. Never change one: it is on disk.
    pub fn code(self) -> i16 {
        match self {
            Usage::OnDemand => 0,
            Usage::Spot => 1,
        }
    }

    /// The usage class with this number, if there is one.
    pub fn from_code(code: i16) -> Option<Usage> {
        Usage::ALL.into_iter().find(|usage| usage.code() == code)
    }
}

/// A number of idle machines from a moment on, by a cron rule.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MinIdleRule {
    /// When it begins to count.
    pub cron: String,
    /// The IANA name of its time zone.
    #[serde(default = "zone_default")]
    pub zone: String,
    /// How many machines are idle from then on, until another rule fires.
    pub min_idle: u32,
}

fn zone_default() -> String {
    ZONE_DEFAULT.to_owned()
}

/// What a pool is to be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolSpec {
    /// Who makes its machines.
    pub provider: String,
    /// What that provider needs to know. The rules do not read it.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// Cores of each machine, exactly.
    pub cpu: u32,
    /// Memory of each machine, at least.
    pub memory_mib: u64,
    /// Types of machines it may use, as patterns with `*` and `?`. None: any.
    #[serde(default)]
    pub types: Vec<String>,
    /// How its machines are paid for.
    #[serde(default)]
    pub usage: Usage,
    /// Whether it may have on-demand machines while there are no spot machines.
    #[serde(default)]
    pub spot_fallback: bool,
    /// How many machines wait for claims at any time, at least.
    #[serde(default)]
    pub min_idle: u32,
    /// Rules for more of them at other times.
    #[serde(default)]
    pub min_idle_rules: Vec<MinIdleRule>,
    /// Most machines, those included that are being ended.
    pub max_size: u32,
    /// How long a machine that is not needed stays idle.
    pub idle_ms: u64,
    /// How long a claim may keep machines.
    pub runtime_ms: u64,
}

impl PoolSpec {
    /// Says what is wrong with it, in words for the person who wrote it.
    pub fn check(&self) -> Result<(), String> {
        if self.provider.is_empty() {
            return Err("provider must not be empty".into());
        }
        if !(1..=CPU_MAX).contains(&self.cpu) || !(1..=MEMORY_MIB_MAX).contains(&self.memory_mib) {
            return Err(format!("cpu must be 1 to {CPU_MAX}, and memory_mib 1 to {MEMORY_MIB_MAX}"));
        }
        if !(1..=SIZE_MAX).contains(&self.max_size) {
            return Err(format!("max_size must be 1 to {SIZE_MAX}, not {}", self.max_size));
        }
        check_types(&self.types)?;
        if self.min_idle_rules.len() > RULES_MAX {
            return Err(format!("min_idle_rules may have at most {RULES_MAX} rules"));
        }
        for rule in &self.min_idle_rules {
            Cron::parse(&rule.cron, &rule.zone).map_err(|error| format!("min_idle_rules: {error}"))?;
        }
        let most_idle = self.min_idle_rules.iter().map(|rule| rule.min_idle).chain([self.min_idle]).max();
        if most_idle > Some(self.max_size) {
            return Err("min_idle must be at most max_size".into());
        }
        // It would never count, and whoever wrote it would wait for it.
        if let Some(rule) = self.min_idle_rules.iter().find(|rule| rule.min_idle < self.min_idle) {
            return Err(format!(
                "min_idle_rules: the rule {:?} asks for {}, and min_idle asks for {} at any time: lower min_idle, and \
                 give the hours that need more a rule of their own",
                rule.cron, rule.min_idle, self.min_idle
            ));
        }
        if !(1..=retry::INTERVAL_MS_MAX).contains(&self.runtime_ms) || self.idle_ms > retry::INTERVAL_MS_MAX {
            return Err("idle_ms and runtime_ms must be at most 365 days, and runtime_ms at least 1".into());
        }
        Ok(())
    }

    /// How many machines are to be idle at this moment, and when that changes next: what the rule
    /// that fired last says, and never fewer than `min_idle`.
    pub fn min_idle_at(&self, now: Millis) -> (u32, Option<Millis>) {
        /// No rule fires more rarely than this and still counts; leap days do.
        const REACH_MS: Millis = 4 * 366 * 24 * 3_600 * 1_000;
        let rules =
            self.min_idle_rules.iter().filter_map(|rule| Some((Cron::parse(&rule.cron, &rule.zone).ok()?, rule)));
        let (mut newest, mut min_idle, mut next) = (None, self.min_idle, None::<Millis>);
        for (cron, rule) in rules {
            let fired = cron.newest(now.saturating_sub(REACH_MS), now, 1).pop();
            // Of rules that fire at the same time the last one counts.
            if fired.is_some() && fired >= newest {
                (newest, min_idle) = (fired, rule.min_idle);
            }
            next = next.into_iter().chain(cron.next(now)).min();
        }
        (min_idle.max(self.min_idle), next)
    }
}

/// What a machine is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// The provider's word for its type.
    pub kind: String,
    /// How it is paid for.
    pub usage: Usage,
    /// Its cores.
    pub cpu: u32,
    /// Its memory.
    pub memory_mib: u64,
}

/// What a claim wants of each machine. What it does not say is left to the pool.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Wanted {
    /// Cores, exactly.
    pub cpu: Option<u32>,
    /// Memory, at least.
    pub memory_mib: Option<u64>,
    /// Types, as patterns. None: any.
    pub types: Vec<String>,
    /// How it is paid for. Whoever can do with a spot machine can do with one that stays.
    pub usage: Option<Usage>,
}

impl Wanted {
    /// Says what is wrong with it, in words for the person who wrote it.
    pub fn check(&self) -> Result<(), String> {
        check_types(&self.types)
    }

    /// Whether this machine will do.
    pub fn fits(&self, machine: &Machine) -> bool {
        let pays = match self.usage {
            Some(Usage::OnDemand) => machine.usage == Usage::OnDemand,
            Some(Usage::Spot) | None => true,
        };
        pays && self.cpu.is_none_or(|cpu| cpu == machine.cpu)
            && self.memory_mib.is_none_or(|memory| memory <= machine.memory_mib)
            && (self.types.is_empty() || self.types.iter().any(|pattern| is_like(pattern, &machine.kind)))
    }
}

fn check_types(types: &[String]) -> Result<(), String> {
    if types.len() > TYPES_MAX {
        return Err(format!("types may list at most {TYPES_MAX} patterns"));
    }
    match types.iter().find(|pattern| pattern.is_empty() || pattern.len() > TYPE_BYTES_MAX) {
        Some(_) => Err(format!("a pattern in types must have 1 to {TYPE_BYTES_MAX} bytes")),
        None => Ok(()),
    }
}

/// Whether every text that is like the second pattern is like the first one. In doubt it is not.
pub fn covers(wide: &str, narrow: &str) -> bool {
    // What a star of the narrow one stands for, only a star of the wide one is sure to be like.
    let any = "\u{1}".repeat(wide.len() + 1);
    is_like(wide, &narrow.replace('*', &any))
}

/// Patterns for what is like one of the first and one of the second, as far as patterns can say
/// that: where two of them only overlap, the first one stands. No patterns are like everything.
pub fn narrowed(pool: &[String], wanted: &[String]) -> Vec<String> {
    if pool.is_empty() || wanted.is_empty() {
        return [pool, wanted].concat();
    }
    let mut both: Vec<String> = Vec::new();
    for own in pool {
        let alike: Vec<&String> = wanted.iter().filter(|pattern| can_be_alike(own, pattern)).collect();
        let is_whole = alike.iter().any(|pattern| covers(pattern, own) || !covers(own, pattern));
        both.extend(if is_whole { vec![own.clone()] } else { alike.into_iter().cloned().collect() });
    }
    both.sort();
    both.dedup();
    both
}

/// Whether some text is like both of these patterns.
pub fn can_be_alike(one: &str, other: &str) -> bool {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let is_star = |pattern: &[char], at: usize| pattern.get(at) == Some(&'*');
    // From the end: whether what is left of the one from a place on can be like what is left of the other, place by place.
    let mut below: Vec<bool> = Vec::new();
    for at in (0..=one.len()).rev() {
        let mut row = vec![false; other.len() + 1];
        for with in (0..=other.len()).rev() {
            let skips_one = is_star(&one, at) && below[with];
            let skips_other = is_star(&other, with) && row[with + 1];
            row[with] = match (one.get(at), other.get(with)) {
                (None, None) => true,
                // A star stands for one more character of the other side, or for no more.
                (Some('*'), Some(_)) if row[with + 1] => true,
                (Some(_), Some('*')) if below[with] => true,
                (Some(a), Some(b)) if *a != '*' && *b != '*' => (a == b || *a == '?' || *b == '?') && below[with + 1],
                (Some(_), Some(_)) | (Some(_), None) | (None, Some(_)) => skips_one || skips_other,
            };
        }
        below = row;
    }
    below[0]
}

/// Whether a text is like a pattern: `*` stands for any characters, `?` for one.
pub fn is_like(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut seen) = (0, 0);
    // The last star, and how much of the text it stands for so far: nothing before it has to be tried again.
    let mut star: Option<(usize, usize)> = None;
    while seen < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(wanted) if *wanted == '?' || *wanted == text[seen] => {
                at += 1;
                seen += 1;
            }
            Some(_) | None => match &mut star {
                Some((place, taken)) => {
                    *taken += 1;
                    (at, seen) = (*place + 1, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|rest| *rest == '*')
}

#[cfg(test)]
#[path = "spec_tests.rs"]
mod tests;
