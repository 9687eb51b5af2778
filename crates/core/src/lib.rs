//! The rules of Baton, and nothing else.
//!
//! Everything here is a pure function: status and event in, new status or refusal out. Time and dice are
//! arguments, so that a test, a model or a simulator can replay any history. Stores apply these rules inside
//! their transactions; faces never see them.
//!
//! * [`answered`]: which claims of a worker were answered.
//! * [`machine`]: what each verb does to a run in each state.
//! * [`retry`]: when a failed run is tried again.
//! * [`matching`]: which waiting worker gets which waiting run.
//! * [`step`]: what a write at a remembered position of a workflow means.
//! * [`rate`]: how many runs a rate-limited queue may hand out now.
//! * [`order`]: where a run stands in its queue.
//! * [`bulk`]: operations on all runs that a filter finds.
//! * [`cron`]: when a schedule fires; [`cron_words`] says it in words.
//! * [`schedule`]: what becomes of its fires while the run before them lives.
//! * [`custody`]: writes that came too late, and which of them are kept on record.
//! * [`payload`]: what stands for a payload that is kept elsewhere.
//! * [`pools`]: runners, claims of them, and how many there should be.
//! * [`readable`]: lengths of time and counts in words for people.
//! * [`statistics`]: numbers as series, and how they are put together.
//! * [`token`]: credentials, derived or hashed.
//! * [`trace`]: the traces that runs are part of, and how their spans are called.
//! * [`webhooks`]: where webhooks may call, when they try again, how they sign.
//! * [`id`]: identifiers of runs and workers, and the fence.

#![warn(missing_docs)]

pub mod answered;
pub mod bulk;
pub mod cron;
mod cron_fields;
pub mod cron_words;
mod cron_zone;
pub mod custody;
pub mod did_you_mean;
pub mod id;
mod lease_end;
pub mod machine;
pub mod matching;
pub mod order;
pub mod payload;
pub mod pools;
pub mod rate;
pub mod readable;
pub mod retry;
pub mod schedule;
pub mod span;
pub mod state;
pub mod statistics;
pub mod step;
pub mod token;
pub mod trace;
pub mod webhooks;

pub use answered::Answered;
pub use bulk::{BulkAction, BulkId, BulkState};
pub use custody::LateVerb;
pub use id::{Epoch, IdPrefix, IdSuffix, RunId, WorkerId, mark};
pub use machine::{Failure, LeaseEnd, Refused, Run};
pub use retry::RetryPolicy;
pub use state::{Reason, State};
pub use step::{StepKind, StepState};

/// Milliseconds since 1970-01-01 UTC on the store's clock, or a span of such milliseconds.
pub type Millis = i64;
