//! Why a claim waits: what somebody who looks at a pool is told of each.

use super::spec::can_be_alike;
use super::{PoolSpec, Usage, Wanted};

/// Why a claim is not filled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Why {
    /// The pool as it is now can never fill it.
    Never(String),
    /// It has all of its machines; so many of them still register.
    Registering(u32),
    /// It has all of its machines, and they are registered.
    HandingOver,
    /// Nobody gets machines now.
    Held(String),
    /// What comes goes to this claim first, by its place in the line.
    Behind(usize),
    /// So many machines that it needs are being created.
    Coming(u32),
    /// The pool has as many machines as it may.
    Full,
    /// Machines are to be asked for.
    NotAsked,
}

/// What is known of a claim that waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    /// How many machines it wants.
    pub count: u32,
    /// How many it has taken.
    pub has: u32,
    /// How many of these are registered.
    pub registered: u32,
    /// Why the pool can never fill it, if it cannot.
    pub never: Option<String>,
}

/// What is known of its pool.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Capacity {
    /// Machines that are being created.
    pub coming: u32,
    /// How many more there may be.
    pub room: u32,
    /// Why nobody gets machines, if nobody does.
    pub held: Option<String>,
}

/// Why the pool can never fill a claim, if it cannot. `kinds` are patterns for the types of its machines; none: they are not known.
pub fn never(spec: &PoolSpec, kinds: &[String], wanted: &Wanted, count: u32) -> Option<String> {
    let can_be = |kind: &String| wanted.types.iter().any(|pattern| can_be_alike(pattern, kind));
    if count > spec.max_size {
        return Some(format!("wants {count} machines, and the pool may have {}", spec.max_size));
    }
    if let Some(cpu) = wanted.cpu.filter(|cpu| *cpu != spec.cpu) {
        return Some(format!("wants {cpu} cores, and machines of the pool have {}", spec.cpu));
    }
    if let Some(memory) = wanted.memory_mib.filter(|memory| *memory > spec.memory_mib) {
        return Some(format!("wants {memory} MiB, and machines of the pool have {}", spec.memory_mib));
    }
    if wanted.usage == Some(Usage::OnDemand) && spec.usage == Usage::Spot && !spec.spot_fallback {
        return Some("wants no spot machines, and the pool has no others".into());
    }
    if !wanted.types.is_empty() && !kinds.is_empty() && !kinds.iter().any(can_be) {
        return Some(format!("wants {}, and machines of the pool are {}", wanted.types.join(", "), kinds.join(", ")));
    }
    None
}

/// Why each claim waits. They stand in the order in which they are served.
pub fn why(line: &[Standing], pool: &Capacity) -> Vec<Why> {
    let (mut ahead, mut first) = (0u32, None);
    let mut told = Vec::with_capacity(line.len());
    for (place, claim) in line.iter().enumerate() {
        let missing = claim.count.saturating_sub(claim.has);
        told.push(one(claim, missing, ahead, first, pool));
        // What can never be filled takes nothing from those behind it.
        if missing > 0 && claim.never.is_none() {
            ahead = ahead.saturating_add(missing);
            first = first.or(Some(place));
        }
    }
    told
}

fn one(claim: &Standing, missing: u32, ahead: u32, first: Option<usize>, pool: &Capacity) -> Why {
    if let Some(never) = &claim.never {
        return Why::Never(never.clone());
    }
    if let Some(held) = &pool.held {
        return Why::Held(held.clone());
    }
    if missing == 0 {
        return match claim.count.saturating_sub(claim.registered) {
            0 => Why::HandingOver,
            left => Why::Registering(left),
        };
    }
    let own = pool.coming.saturating_sub(ahead).min(missing);
    match first {
        _ if own == missing => Why::Coming(own),
        Some(first) => Why::Behind(first),
        None if pool.room == 0 && own == 0 => Why::Full,
        None if own > 0 => Why::Coming(own),
        None => Why::NotAsked,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn spec() -> PoolSpec {
        PoolSpec {
            provider: "local".into(),
            options: BTreeMap::new(),
            cpu: 4,
            memory_mib: 16_384,
            types: vec![],
            usage: Usage::Spot,
            spot_fallback: false,
            min_idle: 0,
            min_idle_rules: vec![],
            max_size: 16,
            idle_ms: 1,
            runtime_ms: 1,
        }
    }

    fn standing(count: u32, has: u32, registered: u32) -> Standing {
        Standing { count, has, registered, never: None }
    }

    #[test]
    fn what_can_never_be_filled_says_so() {
        let wanted = Wanted::default();
        let never_of = |wanted: Wanted, count| never(&spec(), &["c7i.*".to_owned()], &wanted, count);
        assert_eq!(never_of(wanted.clone(), 16), None);
        assert!(never_of(wanted.clone(), 17).unwrap().contains("17 machines"));
        assert!(never_of(Wanted { cpu: Some(2), ..wanted.clone() }, 1).unwrap().contains("2 cores"));
        assert!(never_of(Wanted { memory_mib: Some(32_768), ..wanted.clone() }, 1).unwrap().contains("32768 MiB"));
        assert!(never_of(Wanted { usage: Some(Usage::OnDemand), ..wanted.clone() }, 1).unwrap().contains("spot"));
        assert!(never_of(Wanted { types: vec!["m5.*".into()], ..wanted.clone() }, 1).unwrap().contains("m5.*"));
        assert_eq!(never_of(Wanted { types: vec!["c7i.4*".into()], ..wanted }, 1), None);
    }

    #[test]
    fn each_claim_is_told_what_it_waits_for() {
        let line = [
            standing(2, 2, 0),
            standing(4, 2, 2),
            standing(2, 0, 0),
            Standing { never: Some("no".into()), ..standing(1, 0, 0) },
            standing(1, 0, 0),
        ];
        let full = Capacity::default();
        assert_eq!(
            why(&line, &full),
            [Why::Registering(2), Why::Full, Why::Behind(1), Why::Never("no".into()), Why::Behind(1)]
        );
        let coming = Capacity { coming: 4, ..Capacity::default() };
        assert_eq!(why(&line, &coming)[1..3], [Why::Coming(2), Why::Coming(2)]);
        assert_eq!(why(&line, &coming)[4], Why::Behind(1));
        let room = Capacity { room: 9, ..Capacity::default() };
        assert_eq!(why(&line, &room)[1], Why::NotAsked);
        let held = Capacity { held: Some("GitHub".into()), ..Capacity::default() };
        assert_eq!(why(&line[..1], &held), [Why::Held("GitHub".into())]);
        assert_eq!(why(&[standing(1, 1, 1)], &full), [Why::HandingOver]);
    }

    proptest! {
        #[test]
        fn nobody_waits_behind_somebody_who_comes_later(
            line in prop::collection::vec((1u32..9, 0u32..9, 0u32..9), 0..20), coming in 0u32..20, room in 0u32..20,
        ) {
            let line: Vec<_> = line.into_iter().map(|(count, has, registered)| {
                let has = has.min(count);
                standing(count, has, registered.min(has))
            }).collect();
            let told = why(&line, &Capacity { coming, room, held: None });
            prop_assert_eq!(told.len(), line.len());
            let promised: u32 = told.iter().map(|why| if let Why::Coming(count) = why { *count } else { 0 }).sum();
            prop_assert!(promised <= coming);
            for (place, why) in told.iter().enumerate() {
                if let Why::Behind(first) = why {
                    prop_assert!(*first < place);
                }
            }
        }
    }
}
