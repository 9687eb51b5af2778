//! What the agent of a runner says and hears.

use baton_core::pools::Signal;
use serde::{Deserialize, Serialize};

use crate::Time;

/// An agent on a new machine makes itself known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JoinRunner {
    /// The provider's name for the machine.
    pub machine_id: String,
    /// 32 hexadecimal digits that the agent made up when it first started, and keeps. Whoever joins again with the same ones gets the same
    /// token; with other ones it is refused, because jobs may read the start data of their machine.
    pub nonce: String,
}

/// An agent is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JoinedRunner {
    /// The identifier of its runner.
    pub runner_id: String,
    /// The token for all further calls.
    pub token: String,
    /// The pool.
    pub pool: String,
    /// Its namespace.
    pub namespace: String,
    /// How often to send a heartbeat.
    pub heartbeat_ms: u64,
    /// An agent that has not reached a server for this long ends its machine.
    pub abandon_ms: u64,
    /// What to do now.
    pub order: RunnerOrder,
}

/// What an agent is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunnerAction {
    /// Signal `UD_OK` once the machine is ready for claims.
    Start,
    /// Nothing: wait for a claim.
    Idle,
    /// Register for the run by the deadline, and signal `UD_REG_OK` or `UD_REG_FAILED`.
    Register,
    /// Stay registered for the run. The deadline, once there is one, is when the machine has to end.
    Keep,
    /// Deregister from the run by the deadline, clean up, and signal `UD_REMOVE_REG_OK` or `UD_REMOVE_REG_FAILED`.
    Deregister,
    /// End the machine.
    End,
}

/// What an agent is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunnerOrder {
    /// Stands for this order: passed as `after`, the answer waits until there is another.
    pub serial: String,
    /// `start`, `idle`, `register`, `keep`, `deregister` or `end`.
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::RunnerAction))]
    pub action: RunnerAction,
    /// Goes with every signal about this order. It grows whenever the runner changes hands.
    pub epoch: u32,
    /// The run, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// By when, by the server's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// How much time is left until then, for agents whose clock is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_ms: Option<u64>,
}

/// A signal of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SignalRunner {
    /// `UD_OK`, `UD_REG_OK`, `UD_REG_FAILED`, `UD_REMOVE_REG_OK` or `UD_REMOVE_REG_FAILED`.
    #[cfg_attr(feature = "schema", schema(value_type = crate::words::RunnerSignal))]
    pub signal: Signal,
    /// The epoch of the order that it is about.
    pub epoch: u32,
    /// The run that it is about; not with `UD_OK`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// For people: why a hook failed. The first 16 KiB are kept.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

/// What became of a signal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SignalledRunner {
    /// It counts, now or since it first came. Otherwise nothing has changed.
    pub counts: bool,
    /// Why it does not count, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What to do now.
    pub order: RunnerOrder,
}

/// The agent of a claimed machine wants to register it at GitHub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RegisterRunner {
    /// The run that has claimed it. It becomes the runner's only label.
    pub run_id: String,
    /// The epoch of the order to register.
    pub epoch: u32,
}

/// What it takes to be a runner at GitHub. It is good once, and kept nowhere.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "method", rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum RunnerRegistration {
    /// For `run.sh --jitconfig`.
    Jit {
        /// The runner's name at GitHub.
        name: String,
        /// The configuration, which has its credentials in it.
        config: String,
    },
    /// For `config.sh`.
    Token {
        /// The runner's name at GitHub.
        name: String,
        /// The repository or the organization.
        url: String,
        /// The registration token.
        token: String,
    },
}

// Whoever writes down what came over the wire does not write down credentials.
impl std::fmt::Debug for RunnerRegistration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RunnerRegistration::Jit { name, .. } => f.debug_struct("Jit").field("name", name).finish_non_exhaustive(),
            RunnerRegistration::Token { name, url, .. } => {
                f.debug_struct("Token").field("name", name).field("url", url).finish_non_exhaustive()
            }
        }
    }
}
