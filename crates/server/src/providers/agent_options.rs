//! What the options of a pool may say to its agents: a word that no agent knows would be found out about by a machine, much later.

use std::collections::BTreeMap;

use baton_core::span;

use super::{AGENT_PREFIX, hooks};

/// Says what is wrong with a value.
type Check = fn(&str) -> Result<(), String>;

/// Every option, as `baton agent` knows it.
const KNOWN: [(&str, Check); 14] = [
    ("ca", is_absolute),
    ("client_cert", is_absolute),
    ("client_key", is_absolute),
    ("deregister_hook", hooks::check_path),
    ("end_with", is_something),
    ("github_runner", is_something),
    ("hook", is_hook),
    ("hook_directory", is_absolute),
    ("hook_timeout", is_positive_span),
    ("overtime", is_span),
    ("register_hook", hooks::check_path),
    ("tls_pin", is_something),
    ("unreachable", is_positive_span),
    ("work_directory", is_something),
];
/// Known besides where agents can be made to fall, for tests.
const CRASH_FILE: &str = "crash_file";

fn is_something(value: &str) -> Result<(), String> {
    if value.trim().is_empty() { Err("it must not be empty".into()) } else { Ok(()) }
}

fn is_absolute(value: &str) -> Result<(), String> {
    if value.starts_with('/') { Ok(()) } else { Err(format!("{value:?} must begin with /")) }
}

fn is_hook(value: &str) -> Result<(), String> {
    match value {
        "command" | "github" => Ok(()),
        other => Err(format!("{other:?} is neither command nor github")),
    }
}

fn is_span(value: &str) -> Result<(), String> {
    span::parse(value).map(|_| ())
}

fn is_positive_span(value: &str) -> Result<(), String> {
    span::parse_positive(value).map(|_| ())
}

/// Says what is wrong with the options of a pool that are for its agents.
pub(super) fn check(options: &BTreeMap<String, String>) -> Result<(), String> {
    for (name, value) in options {
        let Some(own) = name.strip_prefix(AGENT_PREFIX) else { continue };
        if cfg!(debug_assertions) && own == CRASH_FILE {
            continue;
        }
        match KNOWN.iter().find(|(known, _)| *known == own) {
            Some((_, check)) => check(value).map_err(|why| format!("options: {name}: {why}"))?,
            None => {
                let known: Vec<String> = KNOWN.iter().map(|(known, _)| format!("{AGENT_PREFIX}{known}")).collect();
                return Err(format!("options: agents know no {name}; {} are known", known.join(", ")));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(name: &str, value: &str) -> Result<(), String> {
        check(&BTreeMap::from([(name.to_owned(), value.to_owned())]))
    }

    #[test]
    fn options_of_agents_are_known_and_can_be_read() {
        for (name, value) in [
            ("agent.register_hook", ""),
            ("agent.hook_timeout", "90s"),
            ("agent.overtime", "0s"),
            ("agent.hook", "github"),
            ("agent.end_with", "poweroff"),
            ("image", "whatever a provider thinks of it"),
        ] {
            assert_eq!(said(name, value), Ok(()), "{name}");
        }
        for (name, value) in [
            ("agent.hook_timeout", "90"),
            ("agent.hook_timeout", "0s"),
            ("agent.unreachable", "soon"),
            ("agent.hook", "gitlab"),
            ("agent.hook_directory", "hooks"),
            ("agent.register_hook", "hooks/register.sh"),
            ("agent.end_with", " "),
        ] {
            assert!(said(name, value).unwrap_err().contains(name), "{name}={value}");
        }
        let unknown = said("agent.registerhook", "true").unwrap_err();
        assert!(unknown.contains("agent.registerhook") && unknown.contains("agent.register_hook"), "{unknown}");
    }
}
