//! The server names the fields of its API when it refuses a value; whoever typed a flag is told of the flag.

use baton::ClientError;

use super::units::Unit;
use crate::exit::Exit;

/// What a command calls the fields of the API.
pub struct Flags {
    /// The command, to check that it has these flags.
    #[cfg_attr(not(test), expect(dead_code, reason = "the test compares the flags with those of the command"))]
    command: &'static [&'static str],
    /// Field and flag, or field and name of a positional argument.
    names: &'static [(&'static str, &'static str)],
}

pub const RUN_SUBMIT: Flags = Flags {
    command: &["run", "submit"],
    names: &[
        ("type", "TYPE"),
        ("queue", "--queue"),
        ("namespace", "--namespace"),
        ("input", "--input"),
        ("priority", "--priority"),
        ("delay_ms", "--delay"),
        ("due_at", "--due-at"),
        ("key", "--key"),
        ("affinity", "--affinity"),
        ("idempotency_key", "--idempotency-key"),
        ("retry.max_attempts", "--max-attempts"),
        ("timeout_ms", "--timeout"),
    ],
};

pub const RUN_LIST: Flags =
    Flags { command: &["run", "list"], names: &[("limit", "--limit"), ("cursor", "--cursor"), ("state", "--state")] };

pub const WORKER_LIST: Flags = Flags {
    command: &["worker", "list"],
    names: &[("limit", "--limit"), ("cursor", "--cursor"), ("status", "--state")],
};

pub const WORKER_RUN: Flags = Flags {
    command: &["worker", "run"],
    names: &[
        ("namespace", "--namespace"),
        ("types", "--type"),
        ("queues", "--queue"),
        ("labels", "--label"),
        ("name", "--name"),
        ("max_concurrent", "--concurrency"),
    ],
};

pub const QUEUE_LIMIT: Flags = Flags {
    command: &["queue", "limit"],
    names: &[
        ("queue", "QUEUE"),
        ("namespace", "--namespace"),
        ("backlog_max", "--backlog"),
        ("rate_per_second", "--rate"),
        ("key_limit", "--per-key"),
    ],
};

pub const QUEUE_PAUSE: Flags = Flags {
    command: &["queue", "pause"],
    names: &[("queue", "QUEUE"), ("namespace", "--namespace"), ("for_ms", "--for")],
};

pub const QUEUE_RESUME: Flags =
    Flags { command: &["queue", "resume"], names: &[("queue", "QUEUE"), ("namespace", "--namespace")] };

pub const SCHEDULE_CREATE: Flags = Flags {
    command: &["schedule", "create"],
    names: &[
        ("id", "ID"),
        ("namespace", "--namespace"),
        ("cron", "--cron"),
        ("time_zone", "--time-zone"),
        ("jitter_ms", "--jitter"),
        ("max_catchup", "--max-catchup"),
        ("run.type", "--type"),
        ("run.queue", "--queue"),
        ("run.input", "--input"),
        ("run.priority", "--priority"),
        ("run.key", "--key"),
        ("run.retry.max_attempts", "--max-attempts"),
        ("run.timeout_ms", "--timeout"),
        ("run.run_timeout_ms", "--run-timeout"),
    ],
};

pub const SCHEDULE_UPDATE: Flags = Flags {
    command: &["schedule", "update"],
    names: &[
        ("id", "ID"),
        ("namespace", "--namespace"),
        ("cron", "--cron"),
        ("time_zone", "--time-zone"),
        ("jitter_ms", "--jitter"),
        ("max_catchup", "--max-catchup"),
        ("run.type", "--type"),
        ("run.queue", "--queue"),
        ("run.input", "--input"),
        ("run.priority", "--priority"),
        ("run.key", "--key"),
        ("run.retry.max_attempts", "--max-attempts"),
        ("run.timeout_ms", "--timeout"),
        ("run.run_timeout_ms", "--run-timeout"),
    ],
};

pub const SCHEDULE_TRIGGER: Flags =
    Flags { command: &["schedule", "trigger"], names: &[("idempotency_key", "--idempotency-key")] };

pub const SCHEDULE_BACKFILL: Flags =
    Flags { command: &["schedule", "backfill"], names: &[("from", "--from"), ("to", "--to")] };

pub const SCHEDULE_LIST: Flags =
    Flags { command: &["schedule", "list"], names: &[("limit", "--limit"), ("cursor", "--cursor")] };

pub const SCHEDULE_RUNS: Flags =
    Flags { command: &["schedule", "runs"], names: &[("limit", "--limit"), ("cursor", "--cursor")] };

pub const SCHEDULE_NEXT: Flags = Flags { command: &["schedule", "next"], names: &[("count", "--count")] };

pub const NAMESPACE_CREATE: Flags = Flags {
    command: &["namespace", "create"],
    names: &[
        ("name", "NAME"),
        ("live_runs_max", "--live-runs"),
        ("workers_max", "--workers"),
        ("schedules_max", "--schedules"),
    ],
};

pub const NAMESPACE_LIMITS: Flags = Flags {
    command: &["namespace", "limits"],
    names: &[
        ("name", "NAME"),
        ("live_runs_max", "--live-runs"),
        ("workers_max", "--workers"),
        ("schedules_max", "--schedules"),
    ],
};

pub const KEY_CREATE: Flags = Flags {
    command: &["key", "create"],
    names: &[("name", "NAME"), ("scopes", "--scope"), ("namespace", "--namespace"), ("expires_in_ms", "--expires-in")],
};

pub const KEY_ROTATE: Flags =
    Flags { command: &["key", "rotate"], names: &[("overlap_ms", "--overlap"), ("expires_in_ms", "--expires-in")] };

pub const AUDIT_LIST: Flags =
    Flags { command: &["audit", "list"], names: &[("limit", "--limit"), ("cursor", "--cursor")] };

pub const SUBMIT: Flags = Flags {
    command: &["submit"],
    names: &[
        ("platform", "--platform"),
        ("project", "--project"),
        ("priority", "--priority"),
        ("baseImageId", "--image"),
        ("Idempotency-Key", "--idempotency-key"),
    ],
};

pub const SUBMIT_GIT: Flags = Flags {
    command: &["submit"],
    names: &[
        ("project_slug", "--project"),
        ("version", "--version-name"),
        ("source_url", "--git"),
        ("ref", "--ref"),
        ("docker_image", "--image"),
        ("Idempotency-Key", "--idempotency-key"),
    ],
};

pub const BUILD_LIST: Flags = Flags {
    command: &["build", "list"],
    names: &[("limit", "--limit"), ("cursor", "--cursor"), ("status", "--state"), ("platform", "--platform")],
};

pub const WORKFLOW_START: Flags = Flags {
    command: &["workflow", "start"],
    names: &[
        ("workflow_type", "TYPE"),
        ("task_queue", "--queue"),
        ("namespace_id", "--namespace"),
        ("input", "--input"),
        ("idempotency_key", "--idempotency-key"),
        ("priority", "--priority"),
        ("start_after", "--delay"),
        ("start_at", "--at"),
        ("timeout", "--timeout"),
        ("retry", "--max-attempts"),
        ("key", "--key"),
        ("pin_version", "--pin-version"),
    ],
};

pub const WORKFLOW_LIST: Flags = Flags {
    command: &["workflow", "list"],
    names: &[
        ("page_size", "--limit"),
        ("page_token", "--cursor"),
        ("state", "--state"),
        ("workflow_type", "--type"),
        ("task_queue", "--queue"),
        ("namespace_id", "--namespace"),
    ],
};

/// Of every command that needs nothing but a run.
pub const WORKFLOW_RUN: Flags = Flags { command: &["workflow", "get"], names: &[("run_id", "RUN")] };

pub const WORKFLOW_CANCEL: Flags =
    Flags { command: &["workflow", "cancel"], names: &[("run_id", "RUN"), ("grace", "--grace")] };

pub const WORKFLOW_SIGNAL: Flags = Flags {
    command: &["workflow", "signal"],
    names: &[("run_id", "RUN"), ("name", "NAME"), ("payload", "--payload"), ("idempotency_key", "--idempotency-key")],
};

pub const POOL_CREATE: Flags = Flags {
    command: &["pool", "create"],
    names: &[
        ("name", "NAME"),
        ("namespace", "--namespace"),
        ("provider", "--provider"),
        ("options", "--option"),
        ("cpu", "--cpu"),
        ("memory_mib", "--memory"),
        ("types", "--type"),
        ("usage", "--usage"),
        ("min_idle", "--min-idle"),
        ("min_idle_rules", "--idle-at"),
        ("max_size", "--max-size"),
        ("idle_ms", "--idle"),
        ("runtime_ms", "--runtime"),
    ],
};

pub const POOL_LIST: Flags =
    Flags { command: &["pool", "list"], names: &[("limit", "--limit"), ("cursor", "--cursor")] };

pub const POOL_RUNNERS: Flags = Flags {
    command: &["pool", "runners"],
    names: &[("limit", "--limit"), ("cursor", "--cursor"), ("state", "--state")],
};

pub const POOL_CLAIMS: Flags = Flags {
    command: &["pool", "claims"],
    names: &[("limit", "--limit"), ("cursor", "--cursor"), ("state", "--state")],
};

pub const POOL_SCALE: Flags = Flags {
    command: &["pool", "scale"],
    names: &[("min_idle", "--min-idle"), ("min_idle_rules", "--idle-at"), ("max_size", "--max-size")],
};

pub const POOL_SET: Flags = Flags {
    command: &["pool", "set"],
    names: &[
        ("options", "--option"),
        ("types", "--type"),
        ("usage", "--usage"),
        ("min_idle", "--min-idle"),
        ("min_idle_rules", "--idle-at"),
        ("max_size", "--max-size"),
        ("idle_ms", "--idle"),
        ("runtime_ms", "--runtime"),
    ],
};

pub const POOL_CLAIM: Flags = Flags {
    command: &["pool", "claim"],
    names: &[
        ("run_id", "--run-id"),
        ("count", "--count"),
        ("types", "--type"),
        ("usage", "--usage"),
        ("cpu", "--cpu"),
        ("memory_mib", "--memory"),
        ("max_runtime_ms", "--runtime"),
        // Of the pool, which has a flag of the same name.
        ("runtime_ms", "--runtime"),
        ("wait_ms", "--wait"),
        ("priority", "--priority"),
    ],
};

pub const WORKER_BUILD: Flags = Flags {
    command: &["worker", "build"],
    names: &[
        ("namespace", "--namespace"),
        ("types", "--platform"),
        ("labels", "--label"),
        ("name", "--name"),
        ("max_concurrent", "--concurrency"),
    ],
};

impl Flags {
    /// Says why a call did not work out in the words of the command line. To be given to `map_err`.
    pub fn explain(&self) -> impl Fn(ClientError) -> Exit {
        |error| match error {
            ClientError::Refused { status, code, message, field, retry_after } if code == "invalid" => {
                let message = self.translate(&message);
                ClientError::Refused { status, code, message, field, retry_after }.into()
            }
            other => other.into(),
        }
    }

    /// Puts flags in the place of fields. A message begins with the field it is about; further on, only what can be
    /// nothing but a field is taken for one: "key" or "type" may be plain words there.
    fn translate(&self, message: &str) -> String {
        let first = message.split(' ').next().unwrap_or_default();
        let unit = Unit::of(first).filter(|_| self.names.iter().any(|(field, _)| *field == first));
        // That a span is longer than nothing was seen to when it was typed.
        let message = match unit {
            Some(Unit::Milliseconds) => message.replacen(" must be 1 to ", " must be at most ", 1),
            Some(Unit::Mebibytes) | None => message.to_owned(),
        };
        let words = message.split(' ').enumerate().map(|(index, word)| {
            let bare = word.trim_start_matches('(').trim_end_matches([',', ';', ':', '.']);
            let is_field = index == 0 || bare.contains(['_', '.']);
            let own = self.names.iter().find(|(field, _)| is_field && *field == bare);
            match own.map(|(_, flag)| (*flag).to_owned()).or_else(|| unit.and_then(|unit| unit.write(bare))) {
                Some(said) => word.replacen(bare, &said, 1),
                None => word.to_owned(),
            }
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    const ALL: [Flags; 35] = [
        RUN_SUBMIT,
        RUN_LIST,
        WORKER_LIST,
        WORKER_RUN,
        QUEUE_LIMIT,
        QUEUE_PAUSE,
        QUEUE_RESUME,
        SCHEDULE_CREATE,
        SCHEDULE_UPDATE,
        SCHEDULE_TRIGGER,
        SCHEDULE_BACKFILL,
        SCHEDULE_LIST,
        SCHEDULE_RUNS,
        SCHEDULE_NEXT,
        NAMESPACE_CREATE,
        NAMESPACE_LIMITS,
        KEY_CREATE,
        KEY_ROTATE,
        AUDIT_LIST,
        SUBMIT,
        SUBMIT_GIT,
        BUILD_LIST,
        WORKFLOW_START,
        WORKFLOW_LIST,
        WORKFLOW_RUN,
        WORKFLOW_CANCEL,
        WORKFLOW_SIGNAL,
        POOL_CREATE,
        POOL_LIST,
        POOL_RUNNERS,
        POOL_CLAIMS,
        POOL_SCALE,
        POOL_SET,
        POOL_CLAIM,
        WORKER_BUILD,
    ];

    #[test]
    fn fields_become_flags() {
        let said = |message| RUN_SUBMIT.translate(message);
        assert_eq!(said("retry.max_attempts must be 1 to 10000, not 0"), "--max-attempts must be 1 to 10000, not 0");
        assert_eq!(said("give delay_ms or due_at, not both"), "give --delay or --due-at, not both");
        assert_eq!(said("key must not be empty"), "--key must not be empty");
        assert_eq!(said("the key of this type is wrong"), "the key of this type is wrong");
        assert_eq!(said("max_losses must be at most 10000"), "max_losses must be at most 10000");
    }

    #[test]
    fn numbers_get_the_units_that_people_type() {
        let said = |message| POOL_CLAIM.translate(message);
        let runtime = "max_runtime_ms must be 1 to 21600000 (runtime_ms of the pool)";
        assert_eq!(said(runtime), "--runtime must be at most 6h (--runtime of the pool)");
        let memory = "memory_mib is 65536, and machines of this pool have 1024";
        assert_eq!(said(memory), "--memory is 65536 MiB, and machines of this pool have 1024 MiB");
        assert_eq!(
            said("count must be 1 to 6 (max_size of the pool), not 9"),
            "--count must be 1 to 6 (max_size of the pool), not 9"
        );
        let spans = "idle_ms and runtime_ms must be at most 365 days, and runtime_ms at least 1";
        let expected = "--idle and --runtime must be at most 365 days, and --runtime at least 1";
        assert_eq!(POOL_CREATE.translate(spans), expected);
    }

    #[test]
    fn every_flag_is_one_of_its_command() {
        for Flags { command, names } in ALL {
            let mut clap = crate::Cli::command();
            clap.build();
            let leaf = command.iter().fold(&clap, |at, name| at.find_subcommand(name).unwrap());
            for (_, flag) in names {
                let known = leaf.get_arguments().any(|argument| match flag.strip_prefix("--") {
                    Some(long) => argument.get_long() == Some(long),
                    None => argument.is_positional() && argument.get_value_names().unwrap()[0] == *flag,
                });
                assert!(known, "{command:?} has no {flag}");
            }
        }
    }
}
