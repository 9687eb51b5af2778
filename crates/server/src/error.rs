//! Why a service call was refused, in neutral words. Faces turn it into their own; nobody else does.

use std::borrow::Cow;

use baton_core::{Refused, State};
use baton_store::StoreError;

/// When a full queue or a crowded pool is worth another try.
const FULL_RETRY_MS: u64 = 5_000;

/// Why a call was not carried out. Nothing has changed, except where `Unavailable` says it may have.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Error {
    /// The request cannot be read at all.
    #[error("{0}")]
    Malformed(String),
    /// The request can be read, but what it asks for makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// As `Invalid`, where the field is known by its name on the wire.
    #[error("{field} {why}")]
    InvalidField {
        /// Its name; `run.queue` or `runs[3].queue` where it is part of something larger.
        field: Cow<'static, str>,
        /// What is wrong with it.
        why: String,
    },
    /// No credential.
    #[error("no API key: send it in the X-API-Key header (or as Authorization: Bearer)")]
    NoCredential,
    /// No credential but a client certificate, which stands for none.
    #[error(
        "no API key: the client certificate is good, but stands for none. Map one of its names to the id of a key in the \
         server's setting tls_client_keys, or send a key in the X-API-Key header"
    )]
    NoCertifiedKey,
    /// A credential that is not good.
    #[error("{0}")]
    BadCredential(String),
    /// A good credential that does not allow this.
    #[error("{0}")]
    Forbidden(String),
    /// There is no such thing (or none the caller may see).
    #[error("there is no {what} {id}")]
    NotFound {
        /// A run, a worker, a queue, a key.
        what: &'static str,
        /// As it was asked for.
        id: String,
    },
    /// The idempotency key belongs to a run with another body.
    #[error("the idempotency key was used before with another body; use a new key for a new run")]
    KeyReused,
    /// The lease is not the current one.
    #[error("the lease is lost: the run was given to another worker or taken back; stop working on it")]
    LeaseLost,
    /// The run has ended otherwise.
    #[error("the run has already ended as {}", .0.as_str())]
    Ended(State),
    /// The run is being cancelled.
    #[error("the run is being cancelled: stop, then fail it or give it back")]
    Cancelling,
    /// Something else is remembered at this position of a workflow.
    #[error(
        "position {position} of the workflow is remembered as {remembered}, not as {asked}: its code was changed under it, or is not \
         deterministic"
    )]
    Diverged {
        /// Where.
        position: u32,
        /// Kind and name of what is remembered.
        remembered: String,
        /// Kind and name of what was asked for.
        asked: String,
    },
    /// The signal was taken at another position.
    #[error("the signal was taken at position {position} already")]
    SignalTaken {
        /// There.
        position: u32,
    },
    /// The workflow remembers as much as it may.
    #[error("the workflow has as many positions as it may have ({limit}); let it continue as new")]
    TooManySteps {
        /// The limit.
        limit: u32,
    },
    /// The workflow would remember more bytes than it may.
    #[error(
        "the workflow would remember {bytes} bytes with this, and may remember {limit} (the setting journal_bytes_max): let its steps give \
         back less, let it continue as new before, or raise the setting"
    )]
    JournalFull {
        /// As many as it would.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The inbox of the workflow is full.
    #[error("the inbox of the workflow holds as many messages as it may ({limit})")]
    InboxFull {
        /// The limit.
        limit: u64,
    },
    /// Nobody could administer what this key does, were it revoked.
    #[error("this is the last admin key: without it nobody could make another; make a new one first, or force it")]
    LastAdminKey,
    /// The worker was lost, deregistered or forced offline.
    #[error("the worker is offline: its leases were given to others; register again")]
    WorkerOffline,
    /// The worker is draining.
    #[error("the worker is draining: finish what it holds, then deregister")]
    WorkerDraining,
    /// The worker holds as many runs as it said it can.
    #[error("the worker holds as many runs as its max_concurrent allows; finish one first")]
    WorkerFull,
    /// The worker's health is under a floor.
    #[error("the worker gets no new work: {0}")]
    WorkerUnfit(String),
    /// The queue holds as many runs as it may.
    #[error("the queue {queue} is full ({limit} runs wait); try again later")]
    QueueFull {
        /// Its name.
        queue: String,
        /// Its limit.
        limit: u64,
    },
    /// As many claims of the pool wait as may.
    #[error(
        "the pool {pool} takes no more claims now: {limit} wait for its machines already; try again when some are filled, or give up some that wait"
    )]
    ClaimsFull {
        /// Its name.
        pool: String,
        /// How many may wait.
        limit: u64,
    },
    /// Too many requests.
    #[error("too many requests; slow down")]
    TooMany {
        /// When to come back.
        retry_after_ms: u64,
    },
    /// The body is larger than allowed.
    #[error("the body is larger than the {limit} bytes allowed here")]
    TooLarge {
        /// How large it may be.
        limit: usize,
    },
    /// A credential that was good once, or never: a worker's token.
    #[error("{0}")]
    TokenExpired(String),
    /// A credential of several that could be shown is missing.
    #[error("{0}")]
    NotShown(String),
    /// The state of things does not allow it.
    #[error("{0}")]
    Conflict(String),
    /// An upload in pieces cannot become a file yet.
    #[error("{0}; send the rest")]
    UploadIncomplete(String),
    /// The namespace keeps as many bytes of artifacts as it may.
    #[error("the namespace keeps as many bytes of artifacts as it may ({limit}); delete some, or ask for more")]
    QuotaReached {
        /// Its limit.
        limit: u64,
    },
    /// The namespace takes nothing new.
    #[error("the namespace {0} is disabled: it takes nothing new until an administrator enables it again")]
    NamespaceDisabled(String),
    /// The namespace has as many of something as it may.
    #[error(
        "the namespace {namespace} may have {limit} {what}, and has them; end some, or ask an administrator for more"
    )]
    NamespaceLimit {
        /// Its name.
        namespace: String,
        /// Live runs, online workers, schedules.
        what: &'static str,
        /// Its limit.
        limit: u64,
    },
    /// As many large bodies are in memory as may be.
    #[error("the server is busy with other large requests; try again")]
    Overloaded,
    /// The body did not come in time.
    #[error("the body did not arrive in time")]
    TooSlow,
    /// The store cannot be reached.
    #[error("the store cannot be reached now; try again")]
    Unavailable,
    /// The artifact storage cannot be reached. The log says which one, and why.
    #[error(
        "the artifact storage cannot be reached now; try again. If it stays so, the server's log and `baton doctor` say which \
         storage it is, and why"
    )]
    StorageUnavailable,
    /// A payload cannot be read any more: its file is gone or changed, or the secret that sealed it was reset.
    #[error(
        "a payload of the run is lost: the storage does not have it any more, or not as it was, or the secret that \
         encrypted it was reset"
    )]
    PayloadLost,
    /// The disk is full.
    #[error("the server's disk is full; nothing was changed")]
    DiskFull,
    /// GitHub did not do what a runner needs of it.
    #[error("{0}")]
    Github(String),
    /// Something has to happen first, and will soon.
    #[error("{0}; try again")]
    NotYet(String),
    /// The server is stopping.
    #[error("the server is stopping; try again")]
    Stopping,
    /// A bug. The log has the details.
    #[error("something went wrong inside the server; its log says what")]
    Internal,
}

impl Error {
    /// A stable word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Malformed(_) => "malformed",
            Error::NotYet(_) => "not_yet",
            Error::Invalid(_) | Error::InvalidField { .. } => "invalid",
            Error::NoCredential | Error::NoCertifiedKey => "no_credential",
            Error::BadCredential(_) => "bad_credential",
            Error::Forbidden(_) => "forbidden",
            Error::NotFound { what: "worker", .. } => "unknown_worker",
            Error::NotFound { .. } => "not_found",
            Error::KeyReused => "idempotency_key_reused",
            Error::LeaseLost => "lease_lost",
            Error::Ended(_) => "ended",
            Error::Cancelling => "cancelling",
            Error::Diverged { .. } => "diverged",
            Error::SignalTaken { .. } => "signal_taken",
            Error::TooManySteps { .. } => "too_many_steps",
            Error::JournalFull { .. } => "journal_full",
            Error::InboxFull { .. } => "inbox_full",
            Error::LastAdminKey => "last_admin_key",
            Error::WorkerOffline => "worker_offline",
            Error::WorkerDraining => "worker_draining",
            Error::WorkerFull => "worker_full",
            Error::WorkerUnfit(_) => "worker_unfit",
            Error::QueueFull { .. } => "queue_full",
            Error::ClaimsFull { .. } => "claims_full",
            Error::TooMany { .. } => "too_many_requests",
            Error::TooLarge { .. } => "too_large",
            Error::TokenExpired(_) => "token_expired",
            Error::NotShown(_) => "no_credential",
            Error::Conflict(_) => "conflict",
            Error::UploadIncomplete(_) => "upload_incomplete",
            Error::QuotaReached { .. } => "quota_reached",
            Error::NamespaceDisabled(_) => "namespace_disabled",
            Error::NamespaceLimit { .. } => "namespace_limit",
            Error::Overloaded => "overloaded",
            Error::TooSlow => "too_slow",
            Error::Unavailable => "unavailable",
            Error::StorageUnavailable => "storage_unavailable",
            Error::PayloadLost => "payload_lost",
            Error::DiskFull => "disk_full",
            Error::Github(_) => "github_failed",
            Error::Stopping => "stopping",
            Error::Internal => "internal",
        }
    }

    /// `Invalid`, about the field with this name on the wire. `why` goes on after the name: "must be 0 to 9".
    pub fn field(field: impl Into<Cow<'static, str>>, why: impl Into<String>) -> Error {
        Error::InvalidField { field: field.into(), why: why.into() }
    }

    /// What a rule says of a shape that it refuses. It begins with the field, as it is called on the wire, where it is about one.
    pub(crate) fn by_rule(said: String) -> Error {
        let is_name = |word: &str| word.bytes().all(|byte| byte.is_ascii_lowercase() || b"_.".contains(&byte));
        match said.split_once(' ') {
            Some((field, why)) if is_name(field) && (why.starts_with("must ") || why.starts_with("may ")) => {
                Error::field(field.to_owned(), why)
            }
            Some(_) | None => Error::Invalid(said),
        }
    }

    /// The field that is wrong, where that is known.
    pub fn wrong_field(&self) -> Option<&str> {
        match self {
            Error::InvalidField { field, .. } => Some(field),
            _ => None,
        }
    }

    /// The same of a part of something larger: `place` is `run` or `runs[3]`.
    pub(crate) fn within(self, place: &str) -> Error {
        match self {
            Error::InvalidField { field, why } => Error::field(format!("{place}.{field}"), why),
            Error::Invalid(why) => Error::Invalid(format!("{place}: {why}")),
            other => other,
        }
    }

    /// When another try may go better, if it may.
    pub fn retry_after_ms(&self) -> Option<u64> {
        match self {
            Error::QueueFull { .. } | Error::ClaimsFull { .. } | Error::NamespaceLimit { .. } => Some(FULL_RETRY_MS),
            Error::TooMany { retry_after_ms } => Some(*retry_after_ms),
            Error::Overloaded | Error::Unavailable | Error::StorageUnavailable | Error::Stopping => Some(1_000),
            _ => None,
        }
    }

    /// True when it is certain that nothing was changed. Otherwise the call may have been carried out, and its answer lost.
    pub fn is_refusal(&self) -> bool {
        !matches!(self, Error::Unavailable | Error::StorageUnavailable | Error::Stopping | Error::Internal)
    }

    /// A run that is not there, or not for this caller.
    pub fn no_run(id: impl ToString) -> Error {
        Error::NotFound { what: "run", id: id.to_string() }
    }

    /// A worker that is not there, or not for this caller.
    pub fn no_worker(id: impl ToString) -> Error {
        Error::NotFound { what: "worker", id: id.to_string() }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        match error {
            StoreError::Unavailable(why) | StoreError::Unusable(why) => {
                tracing::warn!(%why, "the store cannot be reached");
                Error::Unavailable
            }
            StoreError::Full => Error::DiskFull,
            StoreError::Internal(why) => {
                tracing::error!(%why, "the store failed");
                Error::Internal
            }
        }
    }
}

/// What a refusal by the rules means to the caller. `AlreadyDone` never gets here: it is a success.
pub(crate) fn refused(refused: Refused, state: State) -> Error {
    match refused {
        Refused::StaleLease | Refused::NotHeld => Error::LeaseLost,
        Refused::Ended | Refused::AlreadyDone => Error::Ended(state),
        Refused::Cancelling => Error::Cancelling,
        Refused::Held | Refused::NotDue => Error::Invalid(refused.to_string()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_code_is_documented() {
        let page = include_str!("../../../docs/errors.md");
        let codes = include_str!("error.rs").split("=> \"").skip(1).filter_map(|rest| rest.split('"').next());
        for code in codes.filter(|code| !code.is_empty() && !code.contains(' ')) {
            assert!(page.contains(&format!("`{code}`")), "docs/errors.md lacks {code}");
        }
    }
}
