//! What an agent says about its runner.

use serde::{Deserialize, Serialize};

use super::runner::{self, Refused, Runner};
use crate::{Epoch, Millis};

/// A signal of an agent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Signal {
    /// The machine is up.
    #[serde(rename = "UD_OK")]
    Ready,
    /// The runner is registered for its run.
    #[serde(rename = "UD_REG_OK")]
    Registered,
    /// It could not be registered.
    #[serde(rename = "UD_REG_FAILED")]
    RegisterFailed,
    /// It has deregistered, and is clean.
    #[serde(rename = "UD_REMOVE_REG_OK")]
    Deregistered,
    /// It could not be deregistered.
    #[serde(rename = "UD_REMOVE_REG_FAILED")]
    DeregisterFailed,
}

impl Signal {
    /// Every signal.
    pub const ALL: [Signal; 5] =
        [Signal::Ready, Signal::Registered, Signal::RegisterFailed, Signal::Deregistered, Signal::DeregisterFailed];

    /// The word used on the wire and in documents.
    pub fn as_str(self) -> &'static str {
        match self {
            Signal::Ready => "UD_OK",
            Signal::Registered => "UD_REG_OK",
            Signal::RegisterFailed => "UD_REG_FAILED",
            Signal::Deregistered => "UD_REMOVE_REG_OK",
            Signal::DeregisterFailed => "UD_REMOVE_REG_FAILED",
        }
    }

    /// The signal with this word, if there is one.
    pub fn parse(word: &str) -> Option<Signal> {
        Signal::ALL.into_iter().find(|signal| signal.as_str() == word)
    }

    /// Whether it is about a run, which it has to name.
    pub fn is_about_run(self) -> bool {
        match self {
            Signal::Ready => false,
            Signal::Registered | Signal::RegisterFailed | Signal::Deregistered | Signal::DeregisterFailed => true,
        }
    }

    /// What it does to the runner. `lease` is the epoch that the agent was told with its run.
    pub fn apply(self, runner: &Runner, lease: Epoch, now: Millis) -> Result<Runner, Refused> {
        match self {
            Signal::Ready => runner::ready(runner, now),
            Signal::Registered => runner::registered(runner, lease, now),
            Signal::RegisterFailed => runner::register_failed(runner, lease, now),
            Signal::Deregistered => runner::deregistered(runner, lease, now),
            Signal::DeregisterFailed => runner::deregister_failed(runner, lease, now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back() {
        for signal in Signal::ALL {
            assert_eq!(Signal::parse(signal.as_str()), Some(signal));
            assert_eq!(serde_json::to_string(&signal).unwrap(), format!("{:?}", signal.as_str()));
        }
        assert_eq!(Signal::parse("ud_ok"), None);
    }
}
