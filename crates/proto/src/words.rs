//! Closed sets of words, and shapes of the rules, as `/openapi.json` describes them. Where the rules list their words, these are
//! taken from there, so that the document cannot lag behind.

use baton_core::pools::{
    Cause, ClaimReason as EndOfClaim, ClaimState as StandingOfClaim, RunnerState as StandingOfRunner,
};
use baton_core::pools::{Signal, Usage};
use baton_core::{Reason, State as Standing};
use utoipa::openapi::schema::{Schema, Type};
use utoipa::openapi::{ObjectBuilder, RefOr};
use utoipa::{PartialSchema, ToSchema};

fn one_of(about: &str, words: Vec<&'static str>) -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(Type::String).description(Some(about)).enum_values(Some(words)).into()
}

macro_rules! words {
    ($($name:ident: $about:literal = $words:expr;)*) => {$(
        #[doc = $about]
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                one_of($about, $words.to_vec())
            }
        }

        impl ToSchema for $name {}
    )*};
}

words! {
    State: "Where a run stands." = Standing::ALL.map(Standing::as_str);
    FailureReason: "Why a run failed or was cancelled." = Reason::ALL.map(Reason::as_str);
    BulkAction: "What is done to each run." = baton_core::BulkAction::ALL.map(baton_core::BulkAction::as_str);
    BulkState: "Where a bulk operation stands." = baton_core::BulkState::ALL.map(baton_core::BulkState::as_str);
    WaitCode: "Why nobody has a run." =
        ["due_later", "message", "queue_paused", "no_worker", "all_busy", "key_limit", "rate_limit", "position"];
    WorkerStatus: "Whether a worker gets work." = ["ONLINE", "DRAINING", "OFFLINE"];
    KeyScope: "What an API key may do." = ["admin", "submit", "worker", "read"];
    ScheduleOverlap: "What happens to a fire while the run before it lives." =
        ["allow", "skip", "buffer_one", "cancel_previous"];
    FireOutcome: "What became of a fire of a schedule." =
        ["started", "skipped", "missed", "triggered", "backfilled"];
    MachineUsage: "How machines are paid for." = Usage::ALL.map(Usage::as_str);
    RunnerState: "Where a runner stands." = StandingOfRunner::ALL.map(StandingOfRunner::as_str);
    RunnerCause: "Why a runner changed its state." = Cause::ALL.map(Cause::as_str);
    RunnerSignal: "What an agent says." = Signal::ALL.map(Signal::as_str);
    RunnerAction: "What an agent is to do." = ["start", "idle", "register", "keep", "deregister", "end"];
    ClaimState: "Where a claim of machines stands." = StandingOfClaim::ALL.map(StandingOfClaim::as_str);
    ClaimReason: "Why a claim of machines ended." = EndOfClaim::ALL.map(EndOfClaim::as_str);
    ClaimPhase: "How far a runner of a claim is." = ["registering", "registered", "running"];
    BuilderStatus: "What a builder does." = ["idle", "building", "offline"];
    BuildEnd: "How a build ended." = ["success", "failed"];
    StatisticsRange: "A stretch of time that ends now." = ["hour", "day", "month"];
    StatisticsBy: "What is listed besides sums." = ["queue", "pool"];
    WebhookState: "Whether a webhook is called." = ["active", "paused", "disabled"];
    DeliveryState: "Where a delivery stands." = ["waiting", "delivered", "dead"];
    StorageKind: "Where files are kept." = ["directory", "s3"];
    StorageStatus: "Whether a storage can be used." = ["ok", "unavailable"];
}

/// How often, and how fast, a failed run is tried again. What is left out fits what is given.
#[derive(ToSchema)]
#[allow(dead_code, reason = "only its description is used")]
pub struct RetryPolicy {
    /// Attempts in all, the first one included. 1 means: never again.
    #[schema(minimum = 1)]
    max_attempts: Option<u32>,
    /// Wait before the second attempt.
    first_interval_ms: Option<u64>,
    /// Each wait is this many times the one before.
    factor: Option<f64>,
    /// No wait is longer than this, jitter included.
    max_interval_ms: Option<u64>,
    /// Share of the wait that is left to chance: 0.1 spreads it over ±10 %.
    jitter: Option<f64>,
    /// Error codes that are never tried again.
    non_retryable: Option<Vec<String>>,
}

/// How many machines wait for claims from a moment on that comes again and again.
#[derive(ToSchema)]
#[allow(dead_code, reason = "only its description is used")]
pub struct MinIdleRule {
    /// When it begins to count: a cron expression.
    cron: String,
    /// In which time zone. [default: UTC]
    zone: Option<String>,
    /// How many machines wait.
    min_idle: u32,
}
