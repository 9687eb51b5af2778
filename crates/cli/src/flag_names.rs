//! The server names the field of its API that it refuses. People typed a flag, and are told of that.

use clap::{ArgMatches, Command};

/// Ends of fields that flags do without: units are typed with the value.
const ENDS: [&str; 6] = ["_ms", "_mib", "_max", "_per_second", "_id", "s"];
/// Ends of fields that say what a number counts.
const UNITS: [&str; 2] = ["_ms", "_mib"];
/// Digits of a number that is worth a unit: milliseconds, and not the days in "365 days".
const DIGITS_MIN: usize = 4;

/// Fields whose flags have other names.
const OTHERS: [(&str, &str); 18] = [
    ("Idempotency-Key", "idempotency-key"),
    ("baseImageId", "image"),
    ("docker_image", "image"),
    ("key_limit", "per-key"),
    ("max_concurrent", "concurrency"),
    ("max_runtime_ms", "runtime"),
    ("min_idle_rules", "idle-at"),
    ("page_size", "limit"),
    ("page_token", "cursor"),
    ("project_slug", "project"),
    ("rate_per_second", "rate"),
    ("retry", "max-attempts"),
    ("source_url", "git"),
    ("start_after", "delay"),
    ("start_at", "at"),
    ("status", "state"),
    ("types", "platform"),
    ("url", "target"),
];
/// What some fields have before the name of their flag.
const BEGINNINGS: [&str; 3] = ["workflow_", "task_", "page_"];

/// The command that these arguments are of.
pub fn command_of<'a>(program: &'a mut Command, matches: &ArgMatches) -> &'a Command {
    program.build();
    let mut command: &Command = program;
    let mut matches = matches;
    while let Some((name, inner)) = matches.subcommand() {
        let Some(found) = command.find_subcommand(name) else { break };
        (command, matches) = (found, inner);
    }
    command
}

/// What the server said of a field, with the flag in its place. A field with a unit stays there
/// where the message has numbers that may be in it.
pub fn in_flags(command: &Command, field: &str, message: &str) -> String {
    let Some(flag) = flag_of(command, field) else { return message.to_owned() };
    let mut numbers = message.split(|char: char| !char.is_ascii_digit());
    let is_counted = UNITS.iter().any(|unit| field.ends_with(unit)) && numbers.any(|number| number.len() >= DIGITS_MIN);
    let said = match is_counted {
        true => format!("{flag} ({field})"),
        false => flag.clone(),
    };
    match message.strip_prefix(field).filter(|rest| rest.starts_with([' ', ':'])) {
        Some(rest) => format!("{said}{rest}"),
        None => format!("{flag}: {message}"),
    }
}

/// The flag, or the name of the argument, that a field of the API is given by.
fn flag_of(command: &Command, field: &str) -> Option<String> {
    // `run.retry.max_attempts`, `labels[2]`
    let name = field.rsplit('.').next().unwrap_or(field);
    let name = name.split('[').next().unwrap_or(name);
    let shorter = ENDS.iter().filter_map(|end| name.strip_suffix(end));
    let later = BEGINNINGS.iter().filter_map(|beginning| name.strip_prefix(beginning));
    let other = OTHERS.iter().filter(|(field, _)| *field == name).map(|(_, flag)| *flag);
    std::iter::once(name).chain(shorter).chain(later).chain(other).find_map(|name| named(command, name))
}

fn named(command: &Command, name: &str) -> Option<String> {
    let name = name.replace('_', "-");
    // Flags of all commands say how to reach the server, which knows nothing of them.
    let mut own = command.get_arguments().filter(|argument| !argument.is_global_set());
    own.find_map(|argument| match argument.get_long() {
        Some(long) => (long == name).then(|| format!("--{long}")),
        None => {
            let shown = argument.get_value_names()?.first().filter(|_| argument.is_positional())?;
            shown.eq_ignore_ascii_case(&name).then(|| shown.to_string())
        }
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// The command, and which of its flags gives which field.
    const FLAGS: [(&str, &str); 33] = [
        (
            "run submit",
            "type=TYPE queue=--queue namespace=--namespace input=--input priority=--priority delay_ms=--delay \
             due_at=--due-at key=--key affinity=--affinity idempotency_key=--idempotency-key \
             retry.max_attempts=--max-attempts timeout_ms=--timeout",
        ),
        ("run list", "limit=--limit cursor=--cursor state=--state"),
        ("worker list", "limit=--limit cursor=--cursor status=--state"),
        (
            "worker run",
            "namespace=--namespace types=--type types[0]=--type queues=--queue labels=--label name=--name \
             max_concurrent=--concurrency",
        ),
        (
            "queue limit",
            "queue=QUEUE namespace=--namespace backlog_max=--backlog rate_per_second=--rate key_limit=--per-key",
        ),
        ("queue pause", "queue=QUEUE namespace=--namespace for_ms=--for"),
        ("queue resume", "queue=QUEUE namespace=--namespace"),
        (
            "schedule create",
            "id=ID namespace=--namespace cron=--cron time_zone=--time-zone jitter_ms=--jitter \
             max_catchup=--max-catchup run.type=--type run.queue=--queue run.input=--input run.priority=--priority \
             run.key=--key run.retry.max_attempts=--max-attempts run.timeout_ms=--timeout \
             run.run_timeout_ms=--run-timeout",
        ),
        ("schedule update", "id=ID cron=--cron run.type=--type run.run_timeout_ms=--run-timeout"),
        ("schedule trigger", "idempotency_key=--idempotency-key"),
        ("schedule backfill", "from=--from to=--to"),
        ("schedule list", "limit=--limit cursor=--cursor"),
        ("schedule runs", "limit=--limit cursor=--cursor"),
        ("schedule next", "count=--count"),
        ("namespace create", "name=NAME live_runs_max=--live-runs workers_max=--workers schedules_max=--schedules"),
        ("namespace limits", "name=NAME live_runs_max=--live-runs workers_max=--workers schedules_max=--schedules"),
        ("key create", "name=NAME scopes=--scope namespace=--namespace expires_in_ms=--expires-in"),
        ("key rotate", "overlap_ms=--overlap expires_in_ms=--expires-in"),
        ("audit list", "limit=--limit cursor=--cursor"),
        ("webhook create", "name=NAME url=TARGET namespace=--namespace filter.queue=--queue filter.kinds=--kind"),
        ("webhook set", "url=--target filter.queue=--queue filter.kinds=--kind"),
        ("webhook rotate", "overlap_ms=--overlap"),
        (
            "submit",
            "platform=--platform project=--project priority=--priority baseImageId=--image \
             Idempotency-Key=--idempotency-key project_slug=--project source_url=--git ref=--ref docker_image=--image",
        ),
        ("build list", "limit=--limit cursor=--cursor status=--state platform=--platform"),
        (
            "workflow start",
            "workflow_type=TYPE task_queue=--queue namespace_id=--namespace input=--input \
             idempotency_key=--idempotency-key priority=--priority start_after=--delay start_at=--at \
             timeout=--timeout retry=--max-attempts key=--key pin_version=--pin-version",
        ),
        (
            "workflow list",
            "page_size=--limit page_token=--cursor state=--state workflow_type=--type task_queue=--queue \
             namespace_id=--namespace",
        ),
        ("workflow get", "run_id=RUN"),
        ("workflow cancel", "run_id=RUN grace=--grace"),
        ("workflow signal", "run_id=RUN name=NAME payload=--payload idempotency_key=--idempotency-key"),
        (
            "pool create",
            "name=NAME namespace=--namespace provider=--provider options=--option cpu=--cpu memory_mib=--memory \
             types=--type usage=--usage min_idle=--min-idle min_idle_rules=--idle-at max_size=--max-size \
             idle_ms=--idle runtime_ms=--runtime",
        ),
        (
            "pool set",
            "options=--option types=--type usage=--usage min_idle=--min-idle min_idle_rules=--idle-at \
             max_size=--max-size idle_ms=--idle runtime_ms=--runtime",
        ),
        (
            "pool claim",
            "run_id=--run-id count=--count types=--type usage=--usage cpu=--cpu memory_mib=--memory \
             max_runtime_ms=--runtime wait_ms=--wait priority=--priority",
        ),
        (
            "worker build",
            "namespace=--namespace types=--platform labels=--label name=--name max_concurrent=--concurrency",
        ),
    ];

    fn on(path: &str, test: impl Fn(&Command)) {
        let mut program = crate::Cli::command();
        program.build();
        test(path.split(' ').fold(&program, |at, name| at.find_subcommand(name).unwrap()));
    }

    #[test]
    fn each_field_is_given_by_its_flag() {
        for (path, pairs) in FLAGS {
            on(path, |command| {
                for (field, flag) in pairs.split(' ').map(|pair| pair.split_once('=').unwrap()) {
                    assert_eq!(flag_of(command, field).as_deref(), Some(flag), "{path}: {field}");
                }
            });
        }
        on("run submit", |command| assert_eq!(flag_of(command, "max_losses"), None));
    }

    #[test]
    fn people_read_of_the_flag_that_they_typed() {
        on("run submit", |command| {
            let said = |field, message| in_flags(command, field, message);
            let attempts = said("retry.max_attempts", "retry.max_attempts must be 1 to 10000, not 0");
            assert_eq!(attempts, "--max-attempts must be 1 to 10000, not 0");
            assert_eq!(said("max_losses", "max_losses must be at most 9"), "max_losses must be at most 9");
            let timeout = said("timeout_ms", "timeout_ms must be at most 365 days");
            assert_eq!(timeout, "--timeout must be at most 365 days");
            assert_eq!(said("key", "too long: 300 bytes"), "--key: too long: 300 bytes");
        });
        on("pool claim", |command| {
            let runtime = "max_runtime_ms must be 1 to 21600000 (runtime_ms of the pool)";
            let expected = "--runtime (max_runtime_ms) must be 1 to 21600000 (runtime_ms of the pool)";
            assert_eq!(in_flags(command, "max_runtime_ms", runtime), expected);
        });
    }
}
