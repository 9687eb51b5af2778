//! The provider `local`: machines are agents, started as processes of this program next to the server.
//!
//! They outlive a server that falls, so what is known of each is in a directory of its own: first that it is to be, then which process it is. A
//! server that fell in between finds the process by the name it was started under.

use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use baton_core::pools::{Machine, PoolSpec, Usage};
use serde::{Deserialize, Serialize};
use tokio::process::Command;
use tokio::sync::Mutex;

use super::hooks;
use super::process::{Process, marked, named};
use super::{AgentPlace, Create, Ended, PoolInfo, Provider, ProviderError, ProviderMachine};
use crate::crash;

/// What everything that runs on a machine has in its environment, unless it takes pains not to.
const MACHINE_VARIABLE: &str = "BATON_MACHINE_ID";
/// The option that says how an agent ends its machine.
const END_WITH: &str = "agent.end_with";
/// The option that says where hooks are that begin with `./`, and the variable by which agents hear
/// of it.
const HOOK_DIRECTORY: &str = "agent.hook_directory";
const HOOK_DIRECTORY_VARIABLE: &str = "BATON_AGENT_HOOK_DIRECTORY";
/// The options that are hooks.
const HOOKS: [&str; 2] = ["agent.register_hook", "agent.deregister_hook"];
/// What its machines are called by type.
const KIND: &str = "local";
/// The file that says what is known of a machine.
const RECORD: &str = "machine.json";
/// The file that has what an agent prints.
const LOG: &str = "agent.log";
/// How large it may get between two looks before it begins anew, and where it goes then.
const LOG_BYTES_MAX: u64 = 16 << 20;
const LOG_BEFORE: &str = "agent.log.before";
/// How much of its end is kept of an agent that ends: lines, and most bytes.
const LAST_LINES: usize = 3;
const LAST_BYTES: u64 = 2_000;
/// The file that tells the directories of several servers apart.
const HOST: &str = "host";
/// How long an agent has to end by itself.
const GRACE: Duration = Duration::from_secs(5);
/// How often it is looked whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Agents as processes.
#[derive(Debug)]
pub struct LocalProvider {
    directory: PathBuf,
    /// Where the server was started: hooks that begin with `./` are looked for there.
    started_in: PathBuf,
    /// What is started with the argument `agent`; this program unless a test says otherwise.
    program: Option<PathBuf>,
    /// One call at a time: a machine that is being made is not to be taken for one that is gone.
    turn: Mutex<()>,
    /// Where it is said that an agent has ended.
    ended: Arc<Ended>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Record {
    tag: String,
    token: String,
    usage: Usage,
    cpu: u32,
    memory_mib: u64,
    /// Which process it is, once it was started.
    process: Option<Process>,
}

impl Record {
    fn machine(&self, id: &str) -> ProviderMachine {
        let Record { usage, cpu, memory_mib, .. } = *self;
        let machine = Machine { kind: KIND.into(), usage, cpu, memory_mib };
        ProviderMachine { id: id.to_owned(), token: Some(self.token.clone()), machine }
    }

    /// Its process, if that lives.
    fn alive(&self, id: &str) -> Option<Process> {
        match self.process {
            Some(process) => process.is_alive().then_some(process),
            None => named(&process_name(id)),
        }
    }
}

/// Argument zero of an agent. Its children have another.
fn process_name(id: &str) -> String {
    format!("baton-agent {id}")
}

fn unclear(error: io::Error) -> ProviderError {
    ProviderError::Unclear(format!("local: {error}"))
}

impl LocalProvider {
    /// Agents whose directories are in this one, which is made when it is needed.
    pub fn new(directory: PathBuf, ended: Arc<Ended>) -> LocalProvider {
        // Agents are started in it, and would look for a relative one from there.
        let directory = std::path::absolute(&directory).unwrap_or(directory);
        let started_in = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        LocalProvider { directory, started_in, program: None, turn: Mutex::new(()), ended }
    }

    fn place(&self, id: &str) -> PathBuf {
        self.directory.join(id)
    }

    fn read(&self, id: &str) -> Option<Record> {
        serde_json::from_slice(&std::fs::read(self.place(id).join(RECORD)).ok()?).ok()
    }

    fn write(&self, id: &str, record: &Record) -> io::Result<()> {
        let place = self.place(id);
        make_directory(&place)?;
        let draft = place.join("machine.draft");
        std::fs::write(&draft, serde_json::to_vec(record)?)?;
        // Renamed, so that a record is there as a whole or not at all.
        std::fs::rename(draft, place.join(RECORD))
    }

    /// What machines of this directory begin with.
    fn host(&self) -> io::Result<String> {
        let path = self.directory.join(HOST);
        if let Ok(known) = std::fs::read_to_string(&path) {
            return Ok(known);
        }
        make_directory(&self.directory)?;
        let mut bits = [0; 4];
        getrandom::fill(&mut bits).map_err(|error| io::Error::other(error.to_string()))?;
        std::fs::write(&path, format!("{:08x}", u32::from_ne_bytes(bits)))?;
        std::fs::read_to_string(&path)
    }

    fn start(&self, id: &str, wanted: &Create) -> io::Result<Process> {
        let place = self.place(id);
        let log = std::fs::OpenOptions::new().create(true).append(true).open(place.join(LOG))?;
        let program = match &self.program {
            Some(program) => program.clone(),
            None => std::env::current_exe()?,
        };
        let mut command = Command::new(program);
        command.arg0(process_name(id)).arg("agent");
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_the_servers(&name.to_string_lossy())) {
            command.env_remove(name);
        }
        command
            .env("BATON_AGENT_WORK_DIRECTORY", place.join("work"))
            .env(HOOK_DIRECTORY_VARIABLE, &self.started_in)
            .envs(&wanted.environment)
            .env(MACHINE_VARIABLE, id)
            .current_dir(&place)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // Its own group: a Ctrl-C for the server is not one for its runners.
            .process_group(0)
            .kill_on_drop(false);
        let mut child = command.spawn()?;
        let gone = || io::Error::other("the agent ended at once");
        let process = child.id().and_then(|pid| Process::of(pid.cast_signed())).ok_or_else(gone);
        // Somebody has to take note of its end, or its remains stay. Its log is read before anybody removes that.
        let (ended, id) = (self.ended.clone(), id.to_owned());
        tokio::spawn(async move {
            let status = child.wait().await.map_or_else(|error| error.to_string(), |status| status.to_string());
            let said = last_lines(&place.join(LOG)).unwrap_or_default();
            let said = if said.is_empty() { said } else { format!(": {said}") };
            ended.add(id, format!("its agent has ended ({status}){said}"));
        });
        process
    }

    fn make(&self, id: &str, wanted: &Create) -> io::Result<Option<ProviderMachine>> {
        let known = self.read(id);
        if let Some(known) = &known {
            if let Some(process) = known.alive(id) {
                self.write(id, &Record { process: Some(process), ..known.clone() })?;
                return Ok(Some(known.machine(id)));
            }
            if known.process.is_some() {
                // It was there and has ended. The same token does not make another one.
                return Ok(None);
            }
        }
        let record = Record {
            tag: wanted.pool.tag.clone(),
            token: wanted.token.clone(),
            usage: wanted.usage,
            cpu: wanted.pool.spec.cpu,
            memory_mib: wanted.pool.spec.memory_mib,
            process: None,
        };
        self.write(id, &record)?;
        crash::point("local.noted");
        let process = self.start(id, wanted)?;
        crash::point("local.started");
        let record = Record { process: Some(process), ..record };
        self.write(id, &record)?;
        Ok(Some(record.machine(id)))
    }

    /// Every directory of a machine, with what is known of that.
    fn records(&self) -> Vec<(String, Option<Record>)> {
        let Ok(entries) = std::fs::read_dir(&self.directory) else { return Vec::new() };
        let record = |entry: std::fs::DirEntry| {
            let id = entry.file_name().into_string().ok().filter(|_| entry.path().is_dir())?;
            let record = self.read(&id);
            Some((id, record))
        };
        entries.flatten().filter_map(record).collect()
    }

    /// Ends whatever runs on these machines, where the kernel says what does.
    fn end_leftovers(&self, machines: &[&str]) {
        let marks: Vec<String> = machines.iter().map(|id| format!("{MACHINE_VARIABLE}={id}")).collect();
        // As the kernel names them.
        let places: Vec<PathBuf> = machines.iter().filter_map(|id| self.place(id).canonicalize().ok()).collect();
        marked(&marks, &places).iter().for_each(Process::kill);
    }

    /// Keeps the log of a machine from growing for ever: its end is put aside, and it begins anew.
    fn trim_log(&self, id: &str) -> io::Result<()> {
        let log = self.place(id).join(LOG);
        if std::fs::metadata(&log)?.len() > LOG_BYTES_MAX {
            std::fs::copy(&log, self.place(id).join(LOG_BEFORE))?;
            // Whoever writes to it appends.
            std::fs::OpenOptions::new().write(true).open(&log)?.set_len(0)?;
        }
        Ok(())
    }

    /// Forgets a machine whose agent is no more, and ends what that has left running: a job may detach itself.
    fn forget(&self, id: &str) {
        self.end_leftovers(&[id]);
        self.ended.forget(id);
        if let Err(error) = std::fs::remove_dir_all(self.place(id))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(machine = id, %error, "what an agent left behind could not be removed");
        }
    }
}

/// The end of a file.
fn last_lines(path: &Path) -> io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LAST_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(LAST_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    Ok(lines[lines.len().saturating_sub(LAST_LINES)..].join("\n"))
}

fn make_directory(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Whether a name can only be that of a directory of ours.
fn is_plain(id: &str) -> bool {
    !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

#[async_trait]
impl Provider for LocalProvider {
    fn check(&self, spec: &PoolSpec) -> Result<(), String> {
        if let Some(name) = spec.options.keys().find(|name| !name.starts_with(super::AGENT_PREFIX)) {
            return Err(format!("options: the provider local knows no {name}; those of agents begin with agent."));
        }
        let directory = spec.options.get(HOOK_DIRECTORY).map_or(self.started_in.as_path(), Path::new);
        for (name, hook) in HOOKS.iter().filter_map(|name| Some((name, spec.options.get(*name)?))) {
            hooks::check_here(hook, directory).map_err(|why| format!("options: {name}: {why}"))?;
        }
        match spec.options.get(END_WITH).map(|with| with.trim()) {
            None | Some("exit") => Ok(()),
            Some(_) => Err(format!(
                "options: {END_WITH} must be exit: a machine of the provider local ends with its agent, and anything else would end the machine that this server is on"
            )),
        }
    }

    fn lists_all(&self) -> bool {
        true
    }

    fn runs_here(&self) -> bool {
        true
    }

    fn agents_run(&self) -> AgentPlace {
        AgentPlace::Here
    }

    fn kinds(&self, _: &PoolSpec) -> Vec<String> {
        vec![KIND.into()]
    }

    async fn create(&self, wanted: &Create) -> Result<Vec<ProviderMachine>, ProviderError> {
        let _turn = self.turn.lock().await;
        let host = self.host().map_err(unclear)?;
        let mut made = Vec::new();
        for number in 0..wanted.count {
            let id = format!("{host}-{}-{number}", wanted.token);
            match self.make(&id, wanted) {
                Ok(machine) => made.extend(machine),
                // Those that were made count; the rest is asked for again.
                Err(error) if !made.is_empty() => {
                    tracing::warn!(machine = id, %error, "an agent could not be started");
                    break;
                }
                Err(error) => return Err(ProviderError::Refused(format!("the agent could not be started: {error}"))),
            }
        }
        Ok(made)
    }

    async fn terminate(&self, pool: &PoolInfo, machines: &[String]) -> Result<(), ProviderError> {
        // Those of another pool are none of this one's business, whoever names them.
        let own = |id: &String| self.read(id).filter(|record| record.tag == pool.tag);
        let alive = |id: &String| own(id).and_then(|record| record.alive(id));
        let all: Vec<Process> = machines.iter().filter(|id| is_plain(id)).filter_map(alive).collect();
        all.iter().for_each(Process::ask_to_end);
        let mut ending = all.clone();
        let until = tokio::time::Instant::now() + GRACE;
        while !ending.is_empty() && tokio::time::Instant::now() < until {
            tokio::time::sleep(LOOK_EVERY).await;
            ending.retain(Process::is_alive);
        }
        all.iter().for_each(Process::kill_group);
        let own: Vec<&str> =
            machines.iter().filter(|id| is_plain(id) && own(id).is_some()).map(String::as_str).collect();
        self.end_leftovers(&own);
        Ok(())
    }

    async fn list(&self, pool: &PoolInfo) -> Result<Vec<ProviderMachine>, ProviderError> {
        let _turn = self.turn.lock().await;
        let mut found = Vec::new();
        for (id, record) in self.records() {
            match record {
                // A server fell while it made the directory, or while it removed it: there is no agent yet, or none any more.
                None => self.forget(&id),
                Some(record) if record.tag != pool.tag => {}
                Some(record) => match record.alive(&id) {
                    Some(_) => {
                        if let Err(error) = self.trim_log(&id) {
                            tracing::warn!(machine = id, %error, "the log of an agent could not be trimmed");
                        }
                        found.push(record.machine(&id));
                    }
                    None => self.forget(&id),
                },
            }
        }
        Ok(found)
    }

    fn is_here(&self, machine_id: &str) -> bool {
        self.host().is_ok_and(|host| machine_id.starts_with(&format!("{host}-")))
    }
}

/// Whether a variable is for the server alone: its keys, and those of its storage, are none of an
/// agent's business.
fn is_the_servers(variable: &str) -> bool {
    ["BATON_", "AWS_"].iter().any(|prefix| variable.starts_with(prefix))
}

#[cfg(test)]
#[path = "local_tests.rs"]
mod tests;
