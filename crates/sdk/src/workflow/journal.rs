//! What is remembered of a run: answers by position, and the messages it got.

use std::collections::{BTreeMap, HashMap, HashSet};

use baton_proto::v1::{self, MessageKind, StepKind};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::time::{Millis, millis};

/// A remembered position that does not fit what the function asks for now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Divergence {
    position: u32,
    asked: String,
    remembered: String,
}

impl Divergence {
    pub(crate) fn message(&self, workflow_type: &str) -> String {
        format!(
            "the workflow {workflow_type:?} asks for {} at position {}, where {} is remembered: its code has changed in a way that runs under way \
             cannot follow. Put the change behind `ctx.version`, or retry the run from the start",
            self.asked, self.position, self.remembered
        )
    }
}

fn describe(kind: StepKind, name: &str) -> String {
    match kind {
        StepKind::Unspecified => format!("something unknown, {name:?}"),
        StepKind::Step => format!("the step {name:?}"),
        StepKind::Sleep => format!("the sleep {name:?}"),
        StepKind::Signal => format!("the signal {name:?}"),
        StepKind::Child => format!("the child {name:?}"),
        StepKind::Fact => format!("the fact {name:?}"),
    }
}

/// How a wait ended that is not a step's: remembered as a fact right behind the wait's own position.
///
/// A wait that was the only one needs no such record: when it is played again, there is again nothing else that could have ended first.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Decided {
    pub(crate) how: How,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) error: String,
    /// The child.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) run_id: String,
}

impl Decided {
    pub(crate) fn new(how: How) -> Decided {
        Decided { how, output: None, error: String::new(), run_id: String::new() }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum How {
    /// The sleep was over.
    Over,
    /// The signal did not come in time.
    TimedOut,
    /// The workflow was told here that it is cancelled.
    Cancelled,
    /// The child completed.
    ChildCompleted,
    /// The child failed.
    ChildFailed,
    /// The child was cancelled.
    ChildCancelled,
}

/// Everything remembered of a run, and its inbox.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    steps: HashMap<u32, v1::Step>,
    last: Option<u32>,
    /// The number of the last message, all before it being known.
    pub(crate) seen: u64,
    known: HashSet<u64>,
    /// Signals that nobody has taken, by number.
    signals: BTreeMap<u64, v1::Message>,
    taken: HashSet<u64>,
    /// Ends of children, by the position that started them.
    ended: HashMap<u32, v1::Message>,
    /// Somebody wants the run cancelled.
    pub(crate) cancel_requested: bool,
    /// The workflow was told so before, at a remembered position.
    pub(crate) cancel_remembered: bool,
}

/// A failed step with this code is where the workflow was told that it is cancelled.
pub(crate) const CANCELLED_CODE: &str = "cancelled";

impl Journal {
    pub(crate) fn new(steps: Vec<v1::Step>, messages: Vec<v1::Message>) -> Journal {
        let mut journal = Journal { last: steps.iter().map(|step| step.position).max(), ..Journal::default() };
        journal.taken.extend(steps.iter().filter(|step| step.kind() == StepKind::Signal).map(|step| step.message));
        journal.all_until(messages);
        // A run that was made of a cancelled one remembers what that was told. It is not cancelled itself.
        let told = |step: &v1::Step| match step.kind() {
            StepKind::Step => step.state() == v1::StepState::Failed && step.code == CANCELLED_CODE,
            StepKind::Fact => decided(&step.output).is_some_and(|decided| decided.how == How::Cancelled),
            StepKind::Unspecified | StepKind::Sleep | StepKind::Signal | StepKind::Child => false,
        };
        for step in steps {
            if told(&step) {
                if !journal.cancel_requested {
                    continue;
                }
                journal.cancel_remembered = true;
            }
            journal.steps.insert(step.position, step);
        }
        journal
    }

    /// True when something is remembered at this position or a later one: the function has been further than this.
    pub(crate) fn reaches(&self, position: u32) -> bool {
        self.last.is_some_and(|last| last >= position)
    }

    /// True when exactly this is remembered there.
    pub(crate) fn has(&self, position: u32, kind: StepKind, name: &str) -> bool {
        self.steps.get(&position).is_some_and(|step| step.kind() == kind && step.name == name)
    }

    /// What is remembered at a position, which must be of this kind and name.
    pub(crate) fn take(&mut self, position: u32, kind: StepKind, name: &str) -> Result<Option<v1::Step>, Divergence> {
        match self.steps.remove(&position) {
            Some(step) if step.kind() == kind && step.name == name => Ok(Some(step)),
            Some(step) => {
                Err(Divergence { position, asked: describe(kind, name), remembered: describe(step.kind(), &step.name) })
            }
            None => Ok(None),
        }
    }

    /// Notes messages that were pushed. Whether all before them are known is not known.
    pub(crate) fn pushed(&mut self, messages: Vec<v1::Message>) {
        for message in messages {
            if message.number == self.seen + 1 {
                self.seen = message.number;
            }
            self.note(message);
        }
    }

    /// Notes messages that are all there were beyond those seen. Returns whether there were new ones.
    pub(crate) fn all_until(&mut self, messages: Vec<v1::Message>) -> bool {
        let mut news = false;
        for message in messages {
            self.seen = self.seen.max(message.number);
            news |= self.note(message);
        }
        news
    }

    fn note(&mut self, message: v1::Message) -> bool {
        if !self.known.insert(message.number) {
            return false;
        }
        match message.kind() {
            MessageKind::Signal if self.taken.contains(&message.number) => {}
            MessageKind::Signal => drop(self.signals.insert(message.number, message)),
            MessageKind::Child => drop(self.ended.insert(message.position, message)),
            MessageKind::Cancel => self.cancel_requested = true,
            // Of a later version; nobody here waits for it.
            MessageKind::Unspecified => {}
        }
        true
    }

    /// Takes the oldest signal of this name.
    pub(crate) fn take_signal(&mut self, name: &str) -> Option<v1::Message> {
        let number = *self.signals.iter().find(|(_, message)| message.name == name)?.0;
        self.taken.insert(number);
        self.signals.remove(&number)
    }

    /// How the child that was started at this position ended, if it has.
    pub(crate) fn child_end(&self, position: u32) -> Option<&v1::Message> {
        self.ended.get(&position)
    }
}

/// When an outcome was written down.
pub(crate) fn written_at(step: &v1::Step) -> Millis {
    step.ended_at.as_ref().or(step.begun_at.as_ref()).map_or(0, millis)
}

pub(crate) fn decided(output: &Bytes) -> Option<Decided> {
    serde_json::from_slice(output).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signal(number: u64, name: &str) -> v1::Message {
        v1::Message { number, kind: MessageKind::Signal.into(), name: name.into(), ..Default::default() }
    }

    #[test]
    fn signals_are_taken_oldest_first_and_once() {
        let mut journal = Journal::new(Vec::new(), vec![signal(1, "a"), signal(2, "b"), signal(3, "a")]);
        journal.pushed(vec![signal(3, "a"), signal(4, "a")]);
        let taken: Vec<u64> = std::iter::from_fn(|| journal.take_signal("a")).map(|message| message.number).collect();
        assert_eq!(taken, [1, 3, 4]);
        assert_eq!(journal.seen, 4);
    }

    #[test]
    fn a_remembered_signal_is_not_there_again() {
        let step = v1::Step { kind: StepKind::Signal.into(), name: "a".into(), message: 1, ..Default::default() };
        let mut journal = Journal::new(vec![step], vec![signal(1, "a")]);
        assert!(journal.take_signal("a").is_none());
    }

    #[test]
    fn a_pushed_message_beyond_a_gap_is_not_the_last_one_seen() {
        let mut journal = Journal::new(Vec::new(), vec![signal(1, "a")]);
        journal.pushed(vec![signal(3, "a")]);
        assert_eq!(journal.seen, 1);
        assert!(journal.all_until(vec![signal(2, "a"), signal(3, "a")]));
        assert!(!journal.all_until(vec![signal(3, "a")]));
        assert_eq!(journal.seen, 3);
    }

    #[test]
    fn a_divergence_names_both_and_the_position() {
        let step = v1::Step { position: 3, kind: StepKind::Sleep.into(), name: "sleep".into(), ..Default::default() };
        let mut journal = Journal::new(vec![step], Vec::new());
        assert!(journal.reaches(3) && !journal.reaches(4));
        let said = journal.take(3, StepKind::Step, "charge").unwrap_err().message("order");
        assert!(said.contains("the step \"charge\" at position 3, where the sleep \"sleep\" is remembered"), "{said}");
    }
}
