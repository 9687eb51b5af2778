//! What goes into the verbs of builds and what comes out.

use baton_core::{Epoch, Millis, RunId, WorkerId};
use uuid::Uuid;

use crate::{LeaseRef, Submitted};

/// What was submitted, besides the run itself. Written once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewBuild {
    /// Its namespace; its files have to be of the same.
    pub namespace: String,
    /// `ios`, `android`, ...; the type of the run.
    pub platform: String,
    /// The project, if one was named: the key of limits and of affinity.
    pub project: Option<String>,
    /// The API key it came with.
    pub key_id: Option<String>,
    /// What is built.
    pub source: BuildSource,
    /// Image of the machine it is built on, if one was asked for.
    pub base_image: Option<String>,
}

/// What is built.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BuildSource {
    /// Files that were uploaded before. They become the build's in the same write; those of an earlier build may be used
    /// again (a retry), and stay until the last of their builds is deleted.
    Files {
        /// The source archive.
        source: Uuid,
        /// The certificates, if it needs any.
        certs: Option<Uuid>,
    },
    /// A repository that the worker fetches by itself.
    Git {
        /// The project's short name.
        slug: String,
        /// The version that is built.
        version: String,
        /// Where the repository is.
        url: String,
        /// Branch, tag or commit.
        reference: String,
        /// Image of the container it is built in.
        image: String,
    },
}

/// Why a build was not taken. Nothing was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BuildRefused {
    /// The idempotency key belongs to a run with another body.
    KeyReused,
    /// This file is not there: never stored, given up, of another kind or of another namespace.
    FileMissing(Uuid),
}

/// What became of a build that was submitted.
pub type BuildAnswer = Result<Submitted, BuildRefused>;

/// A build, without its run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Build {
    /// Its run.
    pub run: RunId,
    /// What was submitted.
    pub submitted: NewBuild,
}

/// Counts for statistics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BuildCounts {
    /// Waiting: for a worker, or for their due time.
    pub pending: u64,
    /// Held, not begun.
    pub assigned: u64,
    /// Held and begun.
    pub building: u64,
    /// Completed, ever: also those that retention has deleted since.
    pub completed: u64,
    /// Failed, ever.
    pub failed: u64,
    /// Cancelled, ever.
    pub cancelled: u64,
    /// Submitted since the time asked for, and not deleted since.
    pub since: u64,
}

// ---- files

/// What a file is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ArtifactKind {
    /// The source archive of a build.
    Source,
    /// The certificates of a build.
    Certs,
    /// What came out of a lease.
    Result,
    /// What came out of a lease that its sender has not named yet.
    Draft,
}

impl ArtifactKind {
    /// The number kept in the store. Never change one: it is on disk.
    pub fn code(self) -> i16 {
        match self {
            ArtifactKind::Source => 0,
            ArtifactKind::Certs => 1,
            ArtifactKind::Result => 2,
            ArtifactKind::Draft => 3,
        }
    }

    /// The kind with this number.
    pub fn from_code(code: i16) -> Option<ArtifactKind> {
        [ArtifactKind::Source, ArtifactKind::Certs, ArtifactKind::Result, ArtifactKind::Draft]
            .into_iter()
            .find(|kind| kind.code() == code)
    }
}

/// Whose a file is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArtifactOwner {
    /// Nobody's yet: the source of a build to come.
    Source,
    /// Nobody's yet: the certificates of a build to come.
    Certs,
    /// The result of this lease. Taken only while it is the live one.
    Result(LeaseRef),
    /// Nobody's yet: the result of a lease that is named later, see [`crate::Builds::bind_draft`].
    Draft,
}

impl ArtifactOwner {
    /// What the file is.
    pub fn kind(self) -> ArtifactKind {
        match self {
            ArtifactOwner::Source => ArtifactKind::Source,
            ArtifactOwner::Certs => ArtifactKind::Certs,
            ArtifactOwner::Result(_) => ArtifactKind::Result,
            ArtifactOwner::Draft => ArtifactKind::Draft,
        }
    }

    /// The lease it is written under, if it is.
    pub fn lease(self) -> Option<LeaseRef> {
        match self {
            ArtifactOwner::Source | ArtifactOwner::Certs | ArtifactOwner::Draft => None,
            ArtifactOwner::Result(lease) => Some(lease),
        }
    }
}

/// A file that is about to be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewArtifact {
    /// Its identifier, made by the caller.
    pub id: Uuid,
    /// Its namespace.
    pub namespace: String,
    /// Whose it is to be.
    pub owner: ArtifactOwner,
    /// What it was called; never a path.
    pub name: String,
    /// Where it is in storage.
    pub path: String,
}

/// A file in storage. Its row is written before its first byte and deleted after its last, so that whatever a crash leaves
/// behind is found here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Artifact {
    /// Its identifier.
    pub id: Uuid,
    /// Its namespace.
    pub namespace: String,
    /// The build it came out of, or the first one that took it; `None` until one does.
    pub run: Option<RunId>,
    /// What it is.
    pub kind: ArtifactKind,
    /// The lease it was uploaded under; 0 for what was submitted.
    pub epoch: Epoch,
    /// What it was called; never a path.
    pub name: String,
    /// Where it is in storage.
    pub path: String,
    /// Size and sha-256, once it is all there.
    pub stored: Option<(u64, [u8; 32])>,
    /// When it was begun.
    pub created_at: Millis,
}

// ---- logs

/// One line of a build's log. Any text, NUL included.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogLine {
    /// `info`, `warn`, `error`, ...: as it came.
    pub level: String,
    /// What was said.
    pub message: String,
    /// When it was said, if the sender knows; otherwise when it arrived.
    pub at: Option<Millis>,
}

/// One line that was kept. Numbers of a build grow without gaps, from 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogRecord {
    /// Its number.
    pub number: u64,
    /// As it came.
    pub level: String,
    /// What was said.
    pub message: String,
    /// When it was said, or when it arrived.
    pub at: Millis,
    /// When it arrived, on the store's clock.
    pub arrived_at: Millis,
}

/// How far a log is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogEnd {
    /// The number of its last line.
    pub lines: u64,
    /// What it takes of its room.
    pub bytes: u64,
    /// Whether later lines were dropped, or would be.
    pub is_full: bool,
}

/// What became of lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogAnswer {
    /// Kept; the number of the last one.
    Kept(u64),
    /// The build's log is full: some or all were dropped, and its last line, which has this number, says so.
    Full(u64),
    /// The lease is not the live one.
    LeaseLost,
    /// Nothing was kept, for lines are missing in between: so many of this lease are there.
    Ahead(u64),
    /// There is no such build.
    Unknown,
}

// ---- builders

/// A builder of the polling protocols: a name that outlives incarnations, and its token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Builder {
    /// As it calls itself.
    pub name_id: String,
    /// Its namespace.
    pub namespace: String,
    /// Its present incarnation.
    pub worker: WorkerId,
    /// The API key it registered with.
    pub key_id: Option<String>,
    /// The number of the newest token that was given out.
    pub token: i64,
    /// Whether the newest was used; then the one before it is dead.
    pub token_used: bool,
    /// Until when tokens are good.
    pub token_until: Millis,
    /// When its present incarnation registered.
    pub registered_at: Millis,
    /// When it was revoked because an old token came back.
    pub revoked_at: Option<Millis>,
    /// Builds that it completed, in all its incarnations.
    pub succeeded: u64,
    /// Builds that failed with it.
    pub failed: u64,
}

/// A builder's new incarnation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BuilderSet {
    /// The number of the token to give out.
    pub token: i64,
    /// The incarnation before, if it was another one: nobody's token names it any more.
    pub replaced: Option<WorkerId>,
}

/// What became of a token that was shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TokenAnswer {
    /// Good.
    Good {
        /// The builder, as it is now.
        builder: Builder,
        /// The number of the token to give out now: the next one, or the newest again when that has never been used (its
        /// answer was lost). `None` when no new one was asked for.
        next: Option<i64>,
    },
    /// It was good once, too long ago.
    Expired,
    /// Dead, because a newer one was used: the builder is revoked by this.
    Replayed,
    /// The builder was revoked before, or replaced by a newer incarnation, or never had this token.
    Dead,
    /// There is no such worker.
    Unknown,
}

// ---- machines and measurements

/// What became of a one-time password.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OtpAnswer {
    /// Used up by this call.
    Good,
    /// Used before.
    Used,
    /// The lease was claimed too long ago.
    Expired,
    /// The lease is not the live one.
    LeaseLost,
}

/// A virtual machine that builds for a lease.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Machine {
    /// When its one-time password was used.
    pub otp_used_at: Option<Millis>,
    /// When it first said that it is ready.
    pub ready_at: Option<Millis>,
    /// Its last sign of life.
    pub seen_at: Option<Millis>,
    /// How far it says it is, in per cent.
    pub progress: Option<f64>,
}

/// A measurement during a build.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// When it arrived.
    pub at: Millis,
    /// Share of the processors in use.
    pub cpu: Option<f64>,
    /// Share of the memory in use.
    pub memory: Option<f64>,
    /// Memory in use, in megabytes.
    pub memory_mb: Option<f64>,
}

/// What is measured at one moment. What is no number is left out.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct NewMeasurement {
    /// Share of the processors in use.
    pub cpu: Option<f64>,
    /// Share of the memory in use.
    pub memory: Option<f64>,
    /// Memory in use, in megabytes.
    pub memory_mb: Option<f64>,
}
