//! docs/cli.md, written from the definitions of the commands: the page cannot say anything else than the program.

use std::fmt::Write;
use std::path::Path;

use clap::{Arg, Command, CommandFactory};

const INTRODUCTION: &str = "\
# Command line

This page is written by a test from the program's own definitions (`UPDATE_DOCS=1 cargo test -p
baton-cli reference`). `baton COMMAND --help` says the same, and `baton man DIR` writes man pages.

## What all commands have in common

* **Exit codes**: 0 done, 1 the run failed, 2 usage, 3 not found, 4 refused, 5 unreachable.
* **Tables** fit 80 columns, or the terminal where it is wider (`COLUMNS` says otherwise). Text that
  is too long is cut with an ellipsis, moments are distances from now (`3m`, `2h`, `5d`), and states
  have colours on a terminal; `NO_COLOR` and `--color` are honoured.
* **Ids** are shown by their last six characters, because they are made from the time and begin
  alike. Wherever a command takes the id of a run, a workflow, a build, a worker or a runner, its
  last 4 to 12 characters will do. Where several match they are listed, and the command ends with 2;
  where none matches, with 3.
* **`-o table|wide|json|jsonl`** (`--output`; `--json` is `-o json`): `wide` shows whole ids and more
  columns, `json` is one document, `jsonl` one line for each entry of a list.
* **`--watch`** shows a list anew every two seconds until Ctrl-C: in place on a terminal, otherwise
  what is new in it. It outlives a restart of the server.
* **`--wait`** says on the error output why nothing happens, after two seconds and whenever the
  reason changes.

## Which server

In this order:

1. flags: `--url` and `--api-key`, or `--context`;
2. the environment: `BATON_URL` and `BATON_API_KEY`, or `BATON_CONTEXT`. Where both name a server,
   `BATON_URL` counts. With the flag `--context`, neither `BATON_URL` nor `BATON_API_KEY` does;
3. the context in use: `baton login URL` makes one and uses it, `baton context use NAME` another. Not
   where `--data` or `BATON_DATA` name a data directory: that means the server there;
4. the server of this machine, as it left its address and its first key in the data directory.

A key that was given goes to whichever server is meant. A key that was kept, by `baton login` or by a
server in its data directory, goes to the URL that it was kept for and to no other: `--url` finds the
key of a context only where the URL is the same.

Contexts are in `$XDG_CONFIG_HOME/baton/contexts.toml` (`~/.config` where that is not set), which only
you can read (0600):

    current = \"prod\"

    [contexts.prod]
    url = \"https://baton.example.com\"
    api_key = \"bk_...\"
    ca = \"/etc/ssl/acme.pem\"       # optional, as --ca
    tls_pin = \"sha256:...\"         # optional, as --tls-pin
";

/// The page.
fn page() -> String {
    let mut cli = crate::Cli::command().disable_help_subcommand(true);
    cli.build();
    let mut page = INTRODUCTION.to_owned();
    page.push_str("\n## Options of every command\n");
    options(&mut page, cli.get_arguments().filter(|arg| arg.is_global_set()));
    for command in commands(&cli) {
        describe(&mut page, command, 2);
    }
    page
}

fn commands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set())
}

fn describe(page: &mut String, command: &Command, depth: usize) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    // Writing to a string cannot fail.
    let _ = write!(page, "\n{} {name}\n\n", "#".repeat(depth));
    let _ = writeln!(page, "{}", sentence(command.get_about().map(ToString::to_string).unwrap_or_default()));
    let aliases: Vec<String> = command.get_visible_aliases().map(|alias| format!("`{alias}`")).collect();
    if !aliases.is_empty() {
        let _ = writeln!(page, "\nAlso: {}.", aliases.join(", "));
    }
    if command.has_subcommands() {
        for inner in commands(command) {
            describe(page, inner, depth + 1);
        }
        return;
    }
    let usage = command.clone().render_usage().to_string();
    let usage: Vec<&str> = usage.trim_start_matches("Usage:").split_whitespace().collect();
    let _ = writeln!(page, "\n    {}", usage.join(" "));
    let own =
        |arg: &&Arg| !arg.is_global_set() && !arg.is_hide_set() && arg.get_id() != "help" && arg.get_id() != "version";
    options(page, command.get_arguments().filter(own));
    if let Some(after) = command.get_after_help() {
        let _ = writeln!(page, "\n```text\n{}\n```", after.to_string().trim_end());
    }
}

fn options<'a>(page: &mut String, args: impl Iterator<Item = &'a Arg>) {
    let rows: Vec<String> =
        args.filter(|arg| !arg.is_hide_set()).map(|arg| format!("| {} | {} |\n", names(arg), meaning(arg))).collect();
    if !rows.is_empty() {
        page.push_str("\n| | |\n| --- | --- |\n");
        rows.iter().for_each(|row| page.push_str(row));
    }
}

fn names(arg: &Arg) -> String {
    let values: Vec<String> = match arg.get_action().takes_values() {
        true => arg.get_value_names().unwrap_or_default().iter().map(ToString::to_string).collect(),
        false => Vec::new(),
    };
    let value = values.join(" ");
    let flags = [arg.get_short().map(|short| format!("-{short}")), arg.get_long().map(|long| format!("--{long}"))];
    let flags: Vec<String> = flags.into_iter().flatten().collect();
    let words = [flags.join(", "), value].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    format!("`{}`", words.replace('|', "\\|"))
}

fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut text = sentence(help.split_whitespace().collect::<Vec<_>>().join(" "));
    let possible: Vec<String> =
        arg.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
    if arg.get_action().takes_values() && !possible.is_empty() {
        let _ = write!(text, " One of {}.", possible.join(", "));
    }
    let defaults: Vec<String> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    if arg.get_action().takes_values() && defaults.iter().any(|value| !value.is_empty()) {
        let _ = write!(text, " [default: {}]", defaults.join(", "));
    }
    if let Some(variable) = arg.get_env() {
        let _ = write!(text, " [env: {}]", variable.to_string_lossy());
    }
    text.replace('|', "\\|")
}

/// Help ends without the full stop that a page has.
fn sentence(mut text: String) -> String {
    if text.ends_with(|c: char| c.is_alphanumeric() || "`)".contains(c)) {
        text.push('.');
    }
    text
}

#[test]
fn the_reference_says_what_the_program_does() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let written = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &written).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == written, "docs/cli.md is out of date: UPDATE_DOCS=1 cargo test -p baton-cli reference");
}

#[test]
fn no_help_says_unless_given() {
    assert!(!page().contains("unless given"), "defaults are written as [default: 3]");
}
