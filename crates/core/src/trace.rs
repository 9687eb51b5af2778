//! Traces of runs, in the words of W3C Trace Context: what a submitter sends, what is kept with a run, and how its
//! spans are called.
//!
//! Identifiers of spans are derived from the run, so that servers and workers that share no memory name a span alike,
//! also after a crash.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::{Epoch, RunId};

/// Longest `tracestate` that is kept, in bytes: what every system has to pass on.
pub const TRACESTATE_BYTES_MAX: usize = 512;
/// Most members of a `tracestate`.
pub const TRACESTATE_MEMBERS_MAX: usize = 32;
/// Members that are longer are dropped first from a `tracestate` that is too long.
const TRACESTATE_MEMBER_BYTES: usize = 128;
/// The flag of a trace that somebody records.
const SAMPLED: u8 = 1;
/// Length of a `traceparent` of version 00.
const TRACEPARENT_BYTES: usize = 55;

/// Names a trace. Never 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(u128);

impl TraceId {
    /// Builds one from random bits.
    pub fn from_random(random: u128) -> TraceId {
        TraceId(random.max(1))
    }

    /// As it goes over the wire.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// A number from 0 to 1 that is the same for all who look at the trace: sampling goes by it.
    pub fn die(self) -> f64 {
        // The last 56 bits are the random ones, whoever made the trace.
        const BITS: u32 = 53;
        (self.0 as u64 & ((1 << BITS) - 1)) as f64 / (1u64 << BITS) as f64
    }

    fn parse(text: &str) -> Option<TraceId> {
        lower_hex(text, 32).then(|| u128::from_str_radix(text, 16).ok()).flatten().filter(|id| *id != 0).map(TraceId)
    }
}

/// Names a span of a trace. Never 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(u64);

impl SpanId {
    /// Builds one from random bits.
    pub fn from_random(random: u64) -> SpanId {
        SpanId(random.max(1))
    }

    /// As it goes over the wire.
    pub fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    fn parse(text: &str) -> Option<SpanId> {
        lower_hex(text, 16).then(|| u64::from_str_radix(text, 16).ok()).flatten().filter(|id| *id != 0).map(SpanId)
    }
}

macro_rules! hex_text {
    ($($name:ident: $width:literal),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!("{:0", $width, "x}"), self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )*};
}

hex_text!(TraceId: "032", SpanId: "016");

/// A place in a trace, as callers send it: `traceparent` and `tracestate`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceContext {
    /// The trace.
    pub trace_id: TraceId,
    /// The span of whoever sent it.
    pub span_id: SpanId,
    /// Flags; the lowest says that the trace is recorded.
    pub flags: u8,
    /// What other systems keep with the trace.
    pub state: Option<String>,
}

impl TraceContext {
    /// Reads the two headers. A wrong `traceparent` is as good as none, and so is a `tracestate` without one.
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Option<TraceContext> {
        let version = traceparent.get(..2).filter(|version| lower_hex(version, 2) && *version != "ff")?;
        let rest = traceparent.get(TRACEPARENT_BYTES..)?;
        // Later versions may say more, behind another dash.
        if !(rest.is_empty() || version != "00" && rest.starts_with('-')) {
            return None;
        }
        let mut parts = traceparent[..TRACEPARENT_BYTES].split('-').skip(1);
        let (trace_id, span_id) = (TraceId::parse(parts.next()?)?, SpanId::parse(parts.next()?)?);
        let flags = parts.next().filter(|flags| lower_hex(flags, 2))?;
        let flags = u8::from_str_radix(flags, 16).ok()?;
        // Flags of later versions are not ours to pass on.
        let flags = if version == "00" { flags } else { flags & SAMPLED };
        let is_whole = parts.next().is_none();
        is_whole.then(|| TraceContext { trace_id, span_id, flags, state: tracestate.and_then(fitting_state) })
    }

    /// The header `traceparent`.
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-{:02x}", self.trace_id, self.span_id, self.flags)
    }

    /// True when somebody records the trace.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The same trace, seen from another of its spans.
    pub fn at(&self, span_id: SpanId) -> TraceContext {
        TraceContext { span_id, ..self.clone() }
    }
}

/// A `tracestate` as far as it can be kept, if it is one.
fn fitting_state(text: &str) -> Option<String> {
    let members: Vec<&str> = text.split(',').map(|member| member.trim_matches([' ', '\t'])).collect();
    let mut members: Vec<&str> = members.into_iter().filter(|member| !member.is_empty()).collect();
    let is_good = |member: &&str| {
        let Some((key, value)) = member.split_once('=') else { return false };
        let named = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-*/@".contains(&byte);
        !key.is_empty()
            && key.bytes().all(named)
            && value.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=')
    };
    if members.is_empty() || members.len() > TRACESTATE_MEMBERS_MAX || !members.iter().all(is_good) {
        return None;
    }
    let bytes = |members: &[&str]| members.iter().map(|member| member.len() + 1).sum::<usize>() - 1;
    while bytes(&members) > TRACESTATE_BYTES_MAX {
        let long = members.iter().rposition(|member| member.len() > TRACESTATE_MEMBER_BYTES);
        members.remove(long.unwrap_or(members.len() - 1));
        if members.is_empty() {
            return None;
        }
    }
    Some(members.join(","))
}

fn lower_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Another span that a run has to do with, in a trace of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceLink {
    /// Its trace.
    pub trace_id: TraceId,
    /// The span.
    pub span_id: SpanId,
}

/// What is kept of its trace with a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunTrace {
    /// The trace that it is part of.
    pub trace_id: TraceId,
    /// The span that it is a child of; none where the trace begins with the run.
    pub parent: Option<SpanId>,
    /// The submitter's flags.
    pub flags: u8,
    /// The submitter's `tracestate`.
    pub state: Option<String>,
    /// The servers send the spans of the run. Otherwise its trace is only passed on to its workers.
    pub is_recorded: bool,
    /// The run that it goes on from, or repeats.
    pub link: Option<TraceLink>,
}

impl RunTrace {
    /// A trace that begins with a run.
    pub fn begun(trace_id: TraceId, link: Option<TraceLink>) -> RunTrace {
        RunTrace { trace_id, parent: None, flags: SAMPLED, state: None, is_recorded: true, link }
    }

    /// The trace of whoever submits the run. It is recorded when it is sampled and the server `records`.
    pub fn of(context: TraceContext, records: bool) -> RunTrace {
        let is_recorded = records && context.is_sampled();
        let TraceContext { trace_id, span_id, flags, state } = context;
        RunTrace { trace_id, parent: Some(span_id), flags, state, is_recorded, link: None }
    }

    /// The run's own span, from its submit to its end.
    pub fn root(&self, run: RunId) -> SpanId {
        self.span(run, Part::Root)
    }

    /// How another run refers to this one.
    pub fn link(&self, run: RunId) -> TraceLink {
        TraceLink { trace_id: self.trace_id, span_id: self.root(run) }
    }

    /// A span of a run.
    pub fn span(&self, run: RunId, part: Part) -> SpanId {
        let (tag, first, second) = match part {
            Part::Root => (0u8, 0, 0),
            Part::Wait(epoch) => (1, epoch.code() as u64, 0),
            Part::Attempt(epoch) => (2, epoch.code() as u64, 0),
            Part::Step { position, attempt } => (3, position.into(), attempt.into()),
            Part::Pause { position } => (4, position.into(), 0),
        };
        derive(self.trace_id, run, tag, first, second)
    }

    /// Where whoever holds the run with this epoch stands in the trace.
    pub fn of_attempt(&self, run: RunId, epoch: Epoch) -> TraceContext {
        let own = self.span(run, Part::Attempt(epoch));
        let span_id = match (self.is_recorded, self.parent) {
            (false, Some(parent)) => parent,
            (true, _) | (false, None) => own,
        };
        TraceContext { trace_id: self.trace_id, span_id, flags: self.flags, state: self.state.clone() }
    }

    /// As it is kept: one line.
    pub fn to_text(&self) -> String {
        let parent = self.parent.map_or(0, |parent| parent.0);
        let recorded = if self.is_recorded { "r" } else { "" };
        let link = self.link.map(|link| format!("{}-{}", link.trace_id, link.span_id)).unwrap_or_default();
        let state = self.state.as_deref().unwrap_or_default();
        format!("{}-{parent:016x}-{:02x};{recorded};{link};{state}", self.trace_id, self.flags)
    }

    /// Reads what [`RunTrace::to_text`] wrote.
    pub fn from_text(text: &str) -> Option<RunTrace> {
        let mut parts = text.splitn(4, ';');
        let (place, recorded, link, state) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let mut place = place.split('-');
        let trace_id = TraceId::parse(place.next()?)?;
        let parent = place.next().filter(|parent| lower_hex(parent, 16))?;
        let flags = u8::from_str_radix(place.next()?, 16).ok()?;
        let link = match link.split_once('-') {
            Some((trace, span)) => Some(TraceLink { trace_id: TraceId::parse(trace)?, span_id: SpanId::parse(span)? }),
            None => None,
        };
        Some(RunTrace {
            trace_id,
            parent: SpanId::parse(parent),
            flags,
            state: (!state.is_empty()).then(|| state.to_owned()),
            is_recorded: recorded == "r",
            link,
        })
    }
}

/// What a span of a run is about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Part {
    /// The run, from its submit to its end.
    Root,
    /// The time until the claim with this epoch.
    Wait(Epoch),
    /// The lease with this epoch.
    Attempt(Epoch),
    /// An attempt of a step.
    Step {
        /// Where in the workflow.
        position: u32,
        /// 1 for the first.
        attempt: u32,
    },
    /// A sleep, a signal or a child that a workflow waited for.
    Pause {
        /// Where in the workflow.
        position: u32,
    },
}

/// A span that is derived from another one: the same `number` gives the same span.
pub fn derived(trace_id: TraceId, from: SpanId, number: u64) -> SpanId {
    let mut hash = Sha256::new();
    hash.update(trace_id.to_bytes());
    hash.update(from.to_bytes());
    hash.update(number.to_be_bytes());
    first_bytes(hash)
}

fn derive(trace_id: TraceId, run: RunId, tag: u8, first: u64, second: u64) -> SpanId {
    let mut hash = Sha256::new();
    hash.update(trace_id.to_bytes());
    hash.update(run.0.as_bytes());
    hash.update([tag]);
    hash.update(first.to_be_bytes());
    hash.update(second.to_be_bytes());
    first_bytes(hash)
}

fn first_bytes(hash: Sha256) -> SpanId {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hash.finalize()[..8]);
    SpanId(u64::from_be_bytes(bytes).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_is_read_as_the_specification_says() {
        let read = |text: &str| TraceContext::parse(text, None).map(|context| context.traceparent());
        assert_eq!(read(GOOD).as_deref(), Some(GOOD));
        let long = "-what-comes-later";
        let cases: [(&str, Option<&str>); 18] = [
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", Some("00")),
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff", Some("ff")),
            ("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Some("01")),
            ("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03", Some("01")),
            ("ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", None),
            ("00-00000000000000000000000000000000-00f067aa0ba902b7-01", None),
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", None),
            ("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", None),
            ("0A-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", None),
            ("00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-011", None),
            ("00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01", None),
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1", None),
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0g", None),
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-+1", None),
            ("00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", None),
            ("", None),
            ("00", None),
            ("größe größe größe größe größe größe größe größe größe", None),
        ];
        for (text, flags) in cases {
            let found = TraceContext::parse(text, None);
            assert_eq!(found.as_ref().map(|one| format!("{:02x}", one.flags)).as_deref(), flags, "{text}");
        }
        assert_eq!(read(&format!("{GOOD}{long}")), None, "version 00 says no more");
        assert!(read(&format!("01{}{long}", &GOOD[2..])).is_some(), "a later version may");
        assert_eq!(read(&format!("01{}.", &GOOD[2..])), None);
        assert_eq!(read(&format!(" {GOOD}")), None);
    }

    #[test]
    fn a_tracestate_is_bounded_and_a_wrong_one_is_dropped_alone() {
        let state = |text: &str| TraceContext::parse(GOOD, Some(text)).expect("the traceparent is good").state;
        assert_eq!(state("a=1,b@c=2").as_deref(), Some("a=1,b@c=2"));
        assert_eq!(state(" a=1 ,\t, b=2 ").as_deref(), Some("a=1,b=2"));
        for wrong in ["", ",", "a", "=1", "A=1", "a=\u{e4}", "a=b=c", "a=\n"] {
            assert_eq!(state(wrong), None, "{wrong:?}");
        }
        let many = vec!["a=1"; TRACESTATE_MEMBERS_MAX + 1].join(",");
        assert_eq!(state(&many), None);
        let long = format!("first=1,long={},last=2", "x".repeat(600));
        assert_eq!(state(&long).as_deref(), Some("first=1,last=2"), "long members go first");
        let even = (0..10).map(|n| format!("k{n}={}", "x".repeat(100))).collect::<Vec<_>>().join(",");
        let kept = state(&even).unwrap();
        assert!(kept.len() <= TRACESTATE_BYTES_MAX && even.starts_with(&kept), "then those at the end");
    }

    #[test]
    fn a_worker_stands_below_its_attempt_where_that_is_recorded() {
        let context = TraceContext::parse(GOOD, Some("a=1")).unwrap();
        let (run, epoch) = (RunId::new(7, 1, 2), Epoch::new(1));
        let recorded = RunTrace::of(context.clone(), true);
        assert_eq!(recorded.of_attempt(run, epoch), context.at(recorded.span(run, Part::Attempt(epoch))));
        assert_eq!(RunTrace::of(context.clone(), false).of_attempt(run, epoch), context);
        let unsampled = TraceContext { flags: 0, ..context };
        assert!(!RunTrace::of(unsampled, true).is_recorded, "the submitter decides");
    }

    fn traces() -> impl Strategy<Value = RunTrace> {
        let link = proptest::option::of((1u128.., 1u64..));
        let state = proptest::option::of("[a-z]{1,5}=[ -<>-~]{1,9}[!-<>-~]");
        (1u128.., 0u64.., any::<u8>(), state, any::<bool>(), link).prop_map(
            |(trace, parent, flags, state, is_recorded, link)| RunTrace {
                trace_id: TraceId(trace),
                parent: (parent != 0).then_some(SpanId(parent)),
                flags,
                state,
                is_recorded,
                link: link.map(|(trace, span)| TraceLink { trace_id: TraceId(trace), span_id: SpanId(span) }),
            },
        )
    }

    fn parts() -> impl Strategy<Value = Part> {
        let epoch = || any::<i64>().prop_map(Epoch::from_code);
        prop_oneof![
            Just(Part::Root),
            epoch().prop_map(Part::Wait),
            epoch().prop_map(Part::Attempt),
            any::<(u32, u32)>().prop_map(|(position, attempt)| Part::Step { position, attempt }),
            any::<u32>().prop_map(|position| Part::Pause { position }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_kept_comes_back(trace in traces()) {
            prop_assert_eq!(RunTrace::from_text(&trace.to_text()), Some(trace));
        }

        #[test]
        fn what_is_sent_is_read(trace in 1u128.., span in 1u64.., flags: u8) {
            let (trace_id, span_id) = (TraceId(trace), SpanId(span));
            let context = TraceContext { trace_id, span_id, flags, state: None };
            prop_assert_eq!(TraceContext::parse(&context.traceparent(), None), Some(context));
        }

        #[test]
        fn nothing_that_is_sent_does_harm(parent in "\\PC*", state in "\\PC*", tail in "[-0-9a-f]{0,60}") {
            for parent in [parent, tail.clone(), format!("00-{tail}")] {
                if let Some(context) = TraceContext::parse(&parent, Some(&state)) {
                    prop_assert!(context.state.is_none_or(|state| state.len() <= TRACESTATE_BYTES_MAX));
                }
            }
            let _ = RunTrace::from_text(&state);
        }

        #[test]
        fn spans_are_told_apart(
            trace in traces(), run: (u64, u64), other: (u64, u64), part in parts(), another in parts()
        ) {
            let id = |(number, dice)| RunId::new(1_700_000_000_000, number, dice);
            let (run, other) = (id(run), id(other));
            prop_assert_eq!(trace.span(run, part), trace.clone().span(run, part));
            let same = (run, part) == (other, another);
            prop_assert_eq!(trace.span(run, part) == trace.span(other, another), same);
            let elsewhere = RunTrace { trace_id: TraceId(trace.trace_id.0 ^ 1 | 2), ..trace.clone() };
            if elsewhere.trace_id != trace.trace_id {
                prop_assert_ne!(elsewhere.span(run, part), trace.span(run, part));
            }
        }

        #[test]
        fn a_die_is_a_number_below_one(trace in 1u128..) {
            prop_assert!((0.0..1.0).contains(&TraceId(trace).die()));
        }
    }
}
