//! What is built, fetched and unpacked: an archive that somebody uploaded, or a repository.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use baton::runs::{Cancel, Failure};
use baton::{Client, TransferError};
use baton_archive::Error;
use serde::Deserialize;
use tokio::time::sleep;

use super::cache::Cache;
use super::disk::Disk;
use super::isolation::{Environment, Plan, Step};
use super::logs::Logs;
use super::places::Places;
use super::run;
use crate::commands::build::text;
use crate::os;

const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// How a repository may be reached. Not by ssh, which would show this worker's own keys, and not on this machine's disk.
const GIT_PROTOCOLS: &str = "https:http:git";

/// What a system says to names that it does not take.
const NOT_TAKEN: [ErrorKind; 4] =
    [ErrorKind::InvalidFilename, ErrorKind::InvalidInput, ErrorKind::AlreadyExists, ErrorKind::TooManyLinks];

/// What is built, as the run's input says.
#[derive(Clone, Debug, Deserialize)]
pub struct Input {
    pub platform: String,
    #[serde(default)]
    pub base_image: Option<String>,
    #[serde(default)]
    pub source: Option<Archive>,
    #[serde(default)]
    pub certs: bool,
    #[serde(default)]
    pub git: Option<Repository>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Archive {
    pub size: u64,
    pub sha256: String,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Repository {
    pub url: String,
    #[serde(rename = "ref")]
    pub reference: String,
    pub image: String,
}

impl Input {
    /// The image that its submitter named.
    pub fn image(&self) -> Option<&str> {
        self.git.as_ref().map(|git| git.image.as_str()).or(self.base_image.as_deref()).filter(|image| !image.is_empty())
    }
}

/// One build, and who may fetch its files.
pub struct Fetch<'a> {
    pub client: &'a Client,
    pub id: &'a str,
    pub lease: &'a str,
    pub cache: &'a Cache,
    pub places: &'a Places,
    pub logs: &'a Logs,
    pub disk: Disk,
}

impl Fetch<'_> {
    /// Puts the source where it is built.
    pub async fn source(&self, input: &Input, cancel: &Cancel) -> Result<(), Failure> {
        match (&input.source, &input.git) {
            (Some(archive), _) => {
                let file = run::unless_stopped(cancel, self.archive(archive)).await?;
                self.unpack(file).await
            }
            (None, Some(repository)) => self.clone(repository, cancel).await,
            (None, None) => Err(Failure::rejected("the build has neither a source nor a repository")),
        }
    }

    async fn archive(&self, archive: &Archive) -> Result<File, Failure> {
        let sum = &archive.sha256;
        // It becomes the name of a file.
        if sum.len() != 64 || !sum.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Failure::rejected("the sum of the source is no sha-256"));
        }
        let (cache, wanted) = (self.cache.clone(), sum.clone());
        let known = self.if_possible("look into", move || cache.find(&wanted)).await?.flatten();
        if let Some(file) = known {
            self.logs.say("the source is in this worker's cache").await;
            return Ok(file);
        }
        self.logs.say(format!("downloading the source, {}", text::bytes(archive.size))).await;
        let target = self.places.root.join("source.archive");
        let downloaded = loop {
            match self.client.download_source(self.id, self.lease, &target, Arc::new(drop)).await {
                Ok(downloaded) => break downloaded,
                Err(error @ TransferError::Call(_)) if error.is_transient() => sleep(RETRY_PAUSE).await,
                Err(error) => return Err(self.disk.problem("cannot download the source", &error)),
            }
        };
        if downloaded.sha256 != *sum {
            return Err(Failure::new(format!("the source has the sha-256 {}, not {sum}", downloaded.sha256)));
        }
        let path = target.clone();
        let file = self.blocking(move || File::open(path)).await?;
        let (cache, sum) = (self.cache.clone(), sum.clone());
        self.if_possible("add to", move || cache.keep(&target, &sum)).await?;
        Ok(file)
    }

    /// Does something with the cache. A cache that does not work only makes builds slower.
    async fn if_possible<T: Send + 'static>(
        &self,
        what: &str,
        work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
    ) -> Result<Option<T>, Failure> {
        let done = tokio::task::spawn_blocking(work).await.map_err(|error| format!("the worker fell over: {error}"))?;
        Ok(done.inspect_err(|error| tracing::warn!(%error, "cannot {what} the cache of sources")).ok())
    }

    async fn unpack(&self, file: File) -> Result<(), Failure> {
        let source = self.places.source.clone();
        // Not dropped when the build is stopped: the directory must not be removed under it. The limits bound it.
        let unpacked = tokio::task::spawn_blocking(move || {
            baton_archive::unpack(file, &source, &baton_archive::Limits::default())
        });
        let unpacked = unpacked.await.map_err(|error| format!("unpacking fell over: {error}"))?;
        let contents = unpacked.map_err(|error| self.not_unpacked(&error))?;
        let entries = text::count(contents.entries, "entry", "entries");
        self.logs.say(format!("unpacked {entries}, {}", text::bytes(contents.bytes))).await;
        Ok(())
    }

    fn not_unpacked(&self, error: &Error) -> Failure {
        let what = "the source cannot be unpacked";
        match error {
            // It has names that this system does not take.
            Error::File { path, source } if NOT_TAKEN.contains(&source.kind()) => {
                let name = path.strip_prefix(&self.places.source).unwrap_or(Path::new("a file"));
                let why = format!("{}: {source}", name.display());
                self.disk.blame(what, error, &why).code("source").not_retryable()
            }
            // The directory is new, and this worker's own.
            Error::File { .. } | Error::Read(_) | Error::Write(_) => self.disk.problem(what, error),
            Error::NotEmpty(_) => self.disk.problem(what, &std::io::Error::from(ErrorKind::DirectoryNotEmpty)),
            wrong => Failure::new(format!("{what}: {wrong}")).code("source").not_retryable(),
        }
    }

    /// Fetches one commit of a repository, without anything this worker knows: no keys, no settings, no prompts.
    async fn clone(&self, repository: &Repository, cancel: &Cancel) -> Result<(), Failure> {
        std::fs::create_dir(&self.places.source)
            .map_err(|error| self.disk.problem("cannot make a directory", &error))?;
        self.logs.say(format!("fetching {} of {}", repository.reference, repository.url)).await;
        let fetched = run::run(&clone_plan(repository, self.places), None, cancel, self.logs, None).await;
        fetched.map_err(|failure| self.disk.judge(failure, &self.places.root, self.logs.spoke_of_full_disk()))
    }

    /// Puts the certificates into the home of the build, for its eyes only.
    pub async fn certs(&self) -> Result<(), Failure> {
        let certs = loop {
            match self.client.build_certs(self.id, self.lease).await {
                Ok(certs) => break certs,
                Err(error) if error.is_transient() => sleep(RETRY_PAUSE).await,
                Err(error) => return Err(self.disk.problem("cannot fetch the certificates", &error)),
            }
        };
        let path = self.places.home.join("certs.zip");
        self.blocking(move || write_private(&path, &certs)).await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, Failure> {
        let done = tokio::task::spawn_blocking(work).await.map_err(|error| format!("the worker fell over: {error}"))?;
        done.map_err(|error| self.disk.problem("a file cannot be read or written", &error))
    }
}

fn write_private(path: &Path, content: &[u8]) -> std::io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(content)
}

fn clone_plan(repository: &Repository, places: &Places) -> Plan {
    let git = |arguments: &[&str]| Step {
        program: "git".into(),
        arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
    };
    let path = std::env::var("PATH").unwrap_or_default();
    let home = places.home.to_string_lossy().into_owned();
    let variables = [
        ("PATH", path.as_str()),
        ("HOME", &home),
        ("GIT_ALLOW_PROTOCOL", GIT_PROTOCOLS),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ];
    Plan {
        prepare: vec![
            git(&["init", "--quiet"]),
            // Behind the dashes nothing is an option, whatever it begins with.
            git(&["fetch", "--quiet", "--depth", "1", "--", &repository.url, &repository.reference]),
        ],
        beside: None,
        build: git(&["checkout", "--quiet", "--detach", "FETCH_HEAD"]),
        container: None,
        clean: vec![],
        environment: Environment::Only(variables.map(|(name, value)| (name, value.to_owned())).into()),
        directory: places.source.clone(),
        limits: os::Limits::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(text: &str) -> Input {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn the_inputs_of_both_kinds_are_understood() {
        let files = input(
            r#"{"platform":"ios","project":null,"base_image":"sonoma","source":{"size":3,"sha256":"ab"},"certs":true}"#,
        );
        assert_eq!((files.platform.as_str(), files.image(), files.certs), ("ios", Some("sonoma"), true));
        assert_eq!(files.source.unwrap().size, 3);
        let git = input(
            r#"{"platform":"git","project":"app","git":{"url":"https://x/y","ref":"v1","image":"debian","version":"1"}}"#,
        );
        assert_eq!((git.image(), git.certs), (Some("debian"), false));
    }

    #[test]
    fn a_repository_is_fetched_without_what_this_worker_knows() {
        let root = std::path::PathBuf::from("/no/such/work");
        let places = Places { source: root.join("s"), output: root.join("o"), home: root.join("h"), root };
        let repository = Repository { url: "-u".into(), reference: "--ref".into(), image: "i".into() };
        let plan = clone_plan(&repository, &places);
        assert_eq!(plan.prepare[1].arguments[4..], ["--", "-u", "--ref"]);
        let Environment::Only(variables) = plan.environment else { panic!("the worker's environment is passed on") };
        assert!(variables.contains(&("GIT_ALLOW_PROTOCOL", "https:http:git".into())));
        assert!(!variables.iter().any(|(name, _)| name.starts_with("SSH") || name.starts_with("BATON")));
    }
}
