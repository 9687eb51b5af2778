//! The provider `command`: machines are made, ended and listed by a script of whoever runs the server.
//!
//! The script is called with one argument, `create`, `terminate` or `list`. It reads a JSON object and prints one. It ends with 0 when it has done
//! that, with 75 when the same may be asked again, and with anything else when it refuses; what it prints on its standard error says why.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;

use async_trait::async_trait;
use baton_core::pools::spec::narrowed;
use baton_core::pools::{Machine, PoolSpec, Usage};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use super::process::Group;
use super::{Create, PoolInfo, Provider, ProviderError, ProviderMachine};

/// The option that names the script.
const SCRIPT: &str = "script";
/// The exit code of a script that may be asked again (EX_TEMPFAIL).
const ASK_AGAIN: i32 = 75;
/// Most bytes that are kept of what a script says of its trouble.
const TROUBLE_BYTES_MAX: u64 = 4 * 1024;

/// Scripts in one directory.
#[derive(Debug)]
pub struct CommandProvider {
    directory: PathBuf,
    output_bytes_max: usize,
}

/// What a script reads.
#[derive(Serialize)]
struct Input<'a> {
    tag: &'a str,
    namespace: &'a str,
    pool: &'a str,
    cpu: u32,
    memory_mib: u64,
    types: &'a [String],
    options: &'a BTreeMap<String, String>,
    #[serde(flatten)]
    asked: Asked<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Asked<'a> {
    Create {
        token: &'a str,
        count: u32,
        usage: Usage,
        /// Besides those of the pool.
        #[serde(skip)]
        types: &'a [String],
        environment: &'a BTreeMap<String, String>,
    },
    Terminate {
        machines: &'a [String],
    },
    List {},
}

impl Asked<'_> {
    fn verb(&self) -> &'static str {
        match self {
            Asked::Create { .. } => "create",
            Asked::Terminate { .. } => "terminate",
            Asked::List {} => "list",
        }
    }
}

/// What a script prints.
#[derive(Deserialize, Default)]
struct Output {
    #[serde(default)]
    machines: Option<Vec<Printed>>,
}

#[derive(Deserialize)]
struct Printed {
    id: String,
    #[serde(default)]
    token: Option<String>,
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(default)]
    cpu: Option<u32>,
    #[serde(default)]
    memory_mib: Option<u64>,
}

impl CommandProvider {
    /// The scripts in this directory.
    pub fn new(directory: PathBuf, output_bytes_max: usize) -> CommandProvider {
        CommandProvider { directory, output_bytes_max }
    }

    fn script(&self, spec: &PoolSpec) -> Result<PathBuf, String> {
        let name = spec.options.get(SCRIPT).map(String::as_str).unwrap_or_default();
        // A name and not a path: what may be run is up to whoever fills the directory.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if name.is_empty() {
            let why = "the provider command needs options.script, the name of a file in pool_command_directory";
            return Err(why.into());
        }
        if name.starts_with('.') || !name.chars().all(is_plain) {
            let why =
                "must be a plain file name (letters, digits, and . _ -, the first no dot) in pool_command_directory";
            return Err(format!("options.script: {name} {why}"));
        }
        let path = self.directory.join(name);
        match std::fs::metadata(&path) {
            Ok(found) if found.is_file() && found.permissions().mode() & 0o111 != 0 => Ok(path),
            Ok(found) if found.is_file() => Err(format!("options.script: {name} is not executable: chmod +x it")),
            Ok(_) | Err(_) => Err(format!("options.script: there is no {name} in pool_command_directory")),
        }
    }

    async fn run(&self, pool: &PoolInfo, asked: Asked<'_>) -> Result<Output, ProviderError> {
        let script = self.script(&pool.spec).map_err(ProviderError::Misconfigured)?;
        let verb = asked.verb();
        let spec = &pool.spec;
        let types = match &asked {
            Asked::Create { types, .. } => narrowed(&spec.types, types),
            Asked::Terminate { .. } | Asked::List {} => spec.types.clone(),
        };
        let input = Input {
            tag: &pool.tag,
            namespace: &pool.namespace,
            pool: &pool.name,
            cpu: spec.cpu,
            memory_mib: spec.memory_mib,
            types: &types,
            options: &spec.options,
            asked,
        };
        let input = serde_json::to_vec(&input).map_err(|error| ProviderError::Refused(error.to_string()))?;
        let unclear = |what: &str, error: std::io::Error| ProviderError::Unclear(format!("{verb}: {what}: {error}"));
        let mut command = Command::new(&script);
        command.arg(verb).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // The script acts for the server, and has no use for its keys.
        let own = std::env::vars_os().map(|(name, _)| name).filter(|name| name.to_string_lossy().starts_with("BATON_"));
        own.for_each(|name| {
            command.env_remove(name);
        });
        // Who asks may give up at any time: then the script ends, and whatever it has started.
        let spawned = command.process_group(0).kill_on_drop(true).spawn();
        let mut child = spawned.map_err(|error| match is_for_good(&error) {
            true => ProviderError::Misconfigured(format!("{verb}: the script cannot be started: {error}")),
            false => unclear("start", error),
        })?;
        let group = Group::led_by(child.id());
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let feeding = async move {
            if let Some(mut stdin) = stdin {
                // A script that does not read what it does not need is none the worse for it.
                let _ = stdin.write_all(&input).await;
            }
            Ok::<(), ProviderError>(())
        };
        let limit = self.output_bytes_max as u64;
        let printing = async {
            let printed = first_bytes(stdout, limit + 1).await.map_err(|error| unclear("read", error))?;
            match printed.len() as u64 > limit {
                true => Err(ProviderError::Unclear(format!("{verb}: the script printed more than {limit} bytes"))),
                false => Ok(printed),
            }
        };
        let complaining = async {
            let Some(mut stderr) = stderr else { return Ok(Vec::new()) };
            let trouble = first_bytes(Some(&mut stderr), TROUBLE_BYTES_MAX).await.unwrap_or_default();
            // The rest is nobody's business, but has to go somewhere.
            let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
            Ok::<_, ProviderError>(trouble)
        };
        let ((), printed, trouble) = tokio::try_join!(feeding, printing, complaining)?;
        let status = child.wait().await.map_err(|error| unclear("wait", error))?;
        group.let_go();
        if !status.success() {
            let trouble = String::from_utf8_lossy(&trouble).trim().to_owned();
            let why = format!("{verb}: the script ended with {status}: {trouble}");
            return Err(match status.code() {
                Some(ASK_AGAIN) | None => ProviderError::Unclear(why),
                Some(_) => ProviderError::Refused(why),
            });
        }
        if printed.trim_ascii().is_empty() {
            return Ok(Output::default());
        }
        let wrong = |error: serde_json::Error| {
            ProviderError::Unclear(format!("{verb}: what the script printed does not fit: {error}"))
        };
        serde_json::from_slice(&printed).map_err(wrong)
    }
}

/// Whether a program that could not be started cannot be until somebody mends it: it or its interpreter is not there, may not be run, or is none.
fn is_for_good(error: &io::Error) -> bool {
    let is_no_program = error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error());
    is_no_program || matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
}

/// What comes first, up to a limit.
async fn first_bytes(from: Option<impl AsyncRead + Unpin>, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        from.take(limit).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

fn machines(pool: &PoolInfo, usage: Usage, output: Output) -> Vec<ProviderMachine> {
    let machine = |printed: Printed| ProviderMachine {
        id: printed.id,
        token: printed.token,
        machine: Machine {
            kind: printed.kind.unwrap_or_default(),
            usage: printed.usage.unwrap_or(usage),
            cpu: printed.cpu.unwrap_or(pool.spec.cpu),
            memory_mib: printed.memory_mib.unwrap_or(pool.spec.memory_mib),
        },
    };
    output.machines.into_iter().flatten().map(machine).collect()
}

#[async_trait]
impl Provider for CommandProvider {
    fn check(&self, spec: &PoolSpec) -> Result<(), String> {
        self.script(spec).map(|_| ())
    }

    fn runs_here(&self) -> bool {
        true
    }

    async fn create(&self, wanted: &Create) -> Result<Vec<ProviderMachine>, ProviderError> {
        let Create { pool, token, count, usage, types, environment } = wanted;
        let asked = Asked::Create { token, count: *count, usage: *usage, types, environment };
        Ok(machines(pool, *usage, self.run(pool, asked).await?))
    }

    async fn terminate(&self, pool: &PoolInfo, machines: &[String]) -> Result<(), ProviderError> {
        self.run(pool, Asked::Terminate { machines }).await.map(|_| ())
    }

    async fn list(&self, pool: &PoolInfo) -> Result<Vec<ProviderMachine>, ProviderError> {
        let output = self.run(pool, Asked::List {}).await?;
        // A script that says nothing has not said that there is nothing: whatever is not listed is taken for lost.
        if output.machines.is_none() {
            let why = "list: the script printed no \"machines\"; when there are none, that is {\"machines\": []}";
            return Err(ProviderError::Unclear(why.into()));
        }
        Ok(machines(pool, pool.spec.usage, output))
    }
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
