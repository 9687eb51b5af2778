//! The command line: every command against a real server, its JSON, its exit codes, its help.

mod admin;
mod bulk;
mod contexts;
mod exits;
mod help;
mod manage;
mod runs;
mod schedules;
mod settings;
mod tables;

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::site::{API_KEY, BATON, Leases, Site, Store};

/// A person at a terminal, with an environment of their own and nothing of ours.
pub struct Person {
    pub site: Site,
    variables: Vec<(&'static str, String)>,
}

/// What a command did.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Said {
    /// The output, of a command that must have worked.
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out.trim_end().to_owned()
    }
}

impl Person {
    pub async fn new(store: Store) -> Person {
        Person::with_leases(store, Leases::LONG).await
    }

    pub async fn with_leases(store: Store, leases: Leases) -> Person {
        let site = Site::start(store, leases).await;
        let variables = vec![("BATON_URL", site.server.url()), ("BATON_API_KEY", API_KEY.to_owned())];
        Person { site, variables }
    }

    pub async fn baton(&self, arguments: &[&str]) -> Said {
        let variables = self.variables.iter().map(|(name, value)| (*name, value.as_str()));
        baton(self.site.home.path(), variables, arguments, "").await
    }

    /// The JSON that a command prints.
    pub async fn json(&self, arguments: &[&str]) -> Value {
        let arguments: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
        let said = self.baton(&arguments).await.ok();
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{arguments:?} printed no JSON ({error}): {said}"))
    }
}

/// Runs the program in `home` with this environment and input, and nothing else around it.
pub async fn baton<'a>(
    home: &Path,
    variables: impl IntoIterator<Item = (&'a str, &'a str)>,
    arguments: &[&str],
    input: &str,
) -> Said {
    let mut command = Command::new(BATON);
    command.env_clear().env("HOME", home).env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.envs(variables).current_dir(home).args(arguments).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program can be started");
    let mut stdin = child.stdin.take().expect("it has an input");
    // A command that does not read its input may be gone already.
    let _ = stdin.write_all(input.as_bytes()).await;
    drop(stdin);
    let output = child.wait_with_output().await.expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it prints text");
    Said { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
}
