//! Places at which a test can have the server killed, as by `kill -9`: between two steps that a crash must not tear apart.
//!
//! `BATON_CRASH_POINT=draft.synced` kills the process when it comes to that place, `draft.synced:2` when it comes there for the second
//! time. Only programs built with debug assertions can do this; in others a point is nothing at all, and the variable is refused like every
//! other that is no setting.
//!
//! Agents of runner pools have such places too. All agents of a pool are started alike, so there a file names the point
//! (`BATON_AGENT_CRASH_FILE`, the option `agent.crash_file` of a pool), and whoever comes to that takes the file away and falls.

/// Every point, and what was done last when it is reached. A name that is not here is a mistake, and one that no test reaches is too.
#[cfg(debug_assertions)]
pub const POINTS: &[(&str, &str)] = &[
    ("submit.begun", "nothing of a submitted build is stored"),
    ("submit.written", "the build is in the store, and its submitter has no answer"),
    ("file.noted", "a file has a row, and no bytes"),
    ("file.stored", "a file is published, and the store knows that it is whole"),
    ("file.removed", "a file that was refused is deleted, and its row is there"),
    ("draft.part", "a part of a file is written"),
    ("draft.synced", "all of a file is on the disk, under a name that nobody looks for"),
    ("draft.renamed", "a file has its name, and the store does not know of it"),
    ("multipart.begun", "a bucket takes parts of a file, and nobody has written that down"),
    ("multipart.noted", "a bucket takes parts of a file, and that is written down"),
    ("multipart.part", "a part of a file is in a bucket"),
    ("multipart.completed", "a file is in a bucket, and the note of its parts is there"),
    ("mirror.half", "a file is in the storage, and not in its mirror"),
    ("mirror.deleted", "a file is deleted from the storage, and is in its mirror"),
    ("upload.created", "an upload in pieces is begun, and its client has no answer"),
    ("upload.part", "a part of a piece is written, and does not count"),
    ("upload.committed", "a piece is durable, and does not count"),
    ("upload.counted", "a piece counts, and its client has no answer"),
    ("upload.moved", "an upload is a file, and the store does not know of it"),
    ("upload.forgotten", "an upload is a stored file, and is gone itself"),
    ("register.made", "a builder's new incarnation is there, and its name is still the old one's"),
    ("register.named", "a builder's new incarnation has its name, and what the old one held is not given back"),
    ("poll.rotated", "a builder has a new token that it has not seen"),
    ("poll.claimed", "a builder has a build that it does not know of"),
    ("git.claimed", "a builder without a name has a build that it does not know of"),
    ("download.begun", "a build is begun, and its source is not sent"),
    ("download.part", "a part of a file is sent"),
    ("logs.written", "lines are in the log, and their sender has no answer"),
    ("result.begun", "nothing of a result is stored"),
    ("result.drafted", "a result is stored, and is no build's"),
    ("result.bound", "a result that came before the name of its build is stored under its lease"),
    ("complete.begun", "a result is stored under its lease, and the build is not completed"),
    ("complete.written", "the build is completed, and nobody was told"),
    ("complete.counted", "the build is completed and counted, and its builder has no answer"),
    ("collect.doomed", "files are given up, and still there"),
    ("collect.deleted", "files are deleted, and their rows are there"),
    ("collect.forgotten", "files are deleted, and so are their rows"),
    ("payload.noted", "a large payload has a row, and no bytes"),
    ("payload.stored", "a large payload is in the storage, and nothing refers to it"),
    ("payload.doomed", "payloads are given up, and still there"),
    ("payload.deleted", "payloads are deleted, and their rows are there"),
    ("payload.forgotten", "payloads are deleted, and so are their rows"),
    ("sweep.drafts", "left drafts are deleted, and left uploads are still there"),
];

/// As [`POINTS`], on the ways of claims, machines and their agents.
#[cfg(debug_assertions)]
pub const POOL_POINTS: &[(&str, &str)] = &[
    ("claim.opened", "a claim of runners waits, and its caller has no answer"),
    ("claim.taken", "runners are taken for a claim, and their agents do not know"),
    ("claim.committed", "the runners of a claim are handed over, and nobody was told"),
    ("claim.failed", "a claim has failed and given back what it took, and nobody was told"),
    ("claim.released", "a claim is given back, and neither its caller nor the agents know"),
    ("runner.joined", "an agent is bound to its runner, and has no answer"),
    ("signal.noted", "a signal of an agent counts, and nobody acts on it"),
    ("order.written", "machines are ordered in the store, and the provider was not asked"),
    ("order.created", "the provider has made machines, and the store does not know of them"),
    ("order.recorded", "machines have their rows, and those too many are still there"),
    ("order.failed", "an order is given up, and nothing else was tried"),
    ("local.noted", "an agent is to be started, and was not"),
    ("local.started", "an agent runs, and its process is not noted"),
    ("keeper.ended", "runners are to be ended, and their machines are there"),
    ("pool.expired", "runners and claims are over, and nobody was told"),
    ("machines.terminated", "machines are ended, and their rows say terminating"),
    ("machines.gone", "machines are gone, and so are their rows"),
];

/// As [`POINTS`], on the way of a bulk operation.
#[cfg(debug_assertions)]
pub const BULK_POINTS: &[(&str, &str)] = &[
    ("bulk.planned", "it is written down which runs are next, and nothing was done to them"),
    ("bulk.acted", "some of the runs were acted on, and that is not written down"),
];

/// As [`POINTS`], on the way of the installation's secret.
#[cfg(debug_assertions)]
pub const SECRET_POINTS: &[(&str, &str)] = &[
    ("secret.key_made", "a master key is in the data directory, and nothing is wrapped with it"),
    ("secret.kept", "the first generation of the secret is in the store, and the server does not serve"),
    ("secret.key_added", "a new master key is in the file beside the old one, and wraps nothing"),
    ("secret.rotated", "all generations are wrapped with the new master key, and the old one is still in the file"),
    ("secret.key_dropped", "the old master key is gone, and whoever rotated has no answer"),
];

/// As [`POINTS`], on the way of an event to a webhook.
#[cfg(debug_assertions)]
pub const WEBHOOK_POINTS: &[(&str, &str)] = &[
    ("webhook.moved", "deliveries are written, and nobody has begun to make them"),
    ("webhook.claimed", "deliveries are this server's, and no receiver was called"),
    ("webhook.called", "a receiver was called, and what came of it is not written down"),
];

/// As [`POOL_POINTS`], where runners are registered at GitHub.
#[cfg(debug_assertions)]
pub const GITHUB_POINTS: &[(&str, &str)] =
    &[("github.minted", "GitHub expects a runner, and the agent that is to be it does not know")];

/// As [`POINTS`], in agents.
#[cfg(debug_assertions)]
pub const AGENT_POINTS: &[(&str, &str)] = &[
    ("agent.started", "an agent runs, and nobody knows it"),
    ("agent.joined", "an agent has joined, and its machine is not ready"),
    ("agent.said_ready", "the server knows that the machine is ready"),
    ("agent.register", "an agent is to register, and its hook was not started"),
    ("agent.hooked", "the hook has registered the machine, and the server does not know"),
    ("agent.said_registered", "the server knows that the machine is registered"),
    ("agent.kept", "the machine was handed over"),
    ("agent.said_failed", "the server knows that a hook has failed"),
    ("agent.deregister", "an agent is to deregister, and its hook was not started"),
    ("agent.unhooked", "the machine is deregistered, and what the run left is there"),
    ("agent.cleaned", "the machine is clean, and the server does not know"),
    ("agent.said_deregistered", "the server knows that the machine is clean"),
    ("agent.ending", "an agent is to end its machine, and has not"),
];

#[cfg(debug_assertions)]
fn is_known(name: &str) -> bool {
    [POINTS, POOL_POINTS, BULK_POINTS, SECRET_POINTS, WEBHOOK_POINTS, GITHUB_POINTS, AGENT_POINTS]
        .iter()
        .copied()
        .flatten()
        .any(|(known, _)| *known == name)
}

/// Ends the process here, if the environment says so.
#[cfg(debug_assertions)]
pub fn point(name: &str) {
    debug_assert!(is_known(name), "{name} is missing in the tables of crash points");
    armed::reached(name);
}

/// Nothing, in a program that people use.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn point(_: &str) {}

#[cfg(debug_assertions)]
mod armed {
    use std::path::PathBuf;
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use rustix::process::{Signal, getpid, kill_process};

    /// The name of the variable without its prefix is also in the list of those that are no settings.
    const VARIABLE: &str = "BATON_CRASH_POINT";
    const AGENT_VARIABLE: &str = "BATON_AGENT_CRASH_FILE";

    struct Armed {
        name: String,
        /// How often it is still passed; the last time kills.
        left: AtomicU32,
    }

    static ARMED: LazyLock<Option<Armed>> = LazyLock::new(|| {
        let text = std::env::var(VARIABLE).ok()?;
        let (name, times) = text.split_once(':').unwrap_or((&text, "1"));
        let times = times.parse().ok().filter(|times| *times > 0);
        let times = times.unwrap_or_else(|| panic!("{VARIABLE} must be a name, or a name and a number: {text:?}"));
        assert!(super::is_known(name), "{VARIABLE} names no crash point: {name:?}");
        Some(Armed { name: name.to_owned(), left: AtomicU32::new(times) })
    });

    /// The file that names the point of an agent.
    static FILE: LazyLock<Option<PathBuf>> = LazyLock::new(|| std::env::var_os(AGENT_VARIABLE).map(PathBuf::from));

    pub(super) fn reached(name: &str) {
        let is_next =
            ARMED.as_ref().is_some_and(|armed| armed.name == name && armed.left.fetch_sub(1, Ordering::SeqCst) == 1);
        // Several may read the file at the same time, and one of them removes it.
        let is_named = FILE.as_ref().is_some_and(|file| {
            std::fs::read_to_string(file).is_ok_and(|armed| armed == name) && std::fs::remove_file(file).is_ok()
        });
        if !is_next && !is_named {
            return;
        }
        // Nothing is flushed, closed or told, as when the power fails for this process alone.
        kill_process(getpid(), Signal::KILL).expect("a process may kill itself");
        loop {
            std::thread::park();
        }
    }
}
