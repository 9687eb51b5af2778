//! `baton submit`: have a directory or a repository built, and follow the build.

pub mod source;

use std::path::PathBuf;
use std::time::Duration;

use baton::proto::SubmitGitBuild;
use baton::{Client, ClientError, NewBuild, TransferError};
use clap::Args;
use serde::Serialize;

use crate::commands::build::fetch;
use crate::commands::build::finish;
use crate::commands::build::follow::{Followed, follow};
use crate::commands::build::results;
use crate::commands::build::screen::{Bar, Screen};
use crate::commands::build::text;
use crate::exit::Exit;
use crate::output::JsonFlag;

/// How often a submit is sent that got no answer. It has an idempotency key, so no build is made twice.
const TRIES_MAX: u32 = 5;
const PAUSE_FIRST: Duration = Duration::from_millis(500);

#[derive(Args)]
pub struct SubmitArgs {
    /// Directory to build. [default: the current one]
    #[arg(value_name = "DIR", conflicts_with = "git")]
    directory: Option<PathBuf>,
    /// What to build for: ios, android, ...
    #[arg(long, short, required_unless_present = "git", conflicts_with = "git")]
    platform: Option<String>,
    /// Zip of signing certificates. It is kept encrypted, and only the worker that builds gets it.
    #[arg(long, value_name = "FILE", conflicts_with = "git")]
    certs: Option<PathBuf>,
    /// The project. Builds of one project take turns with those of others, and prefer a worker that knows it.
    #[arg(long)]
    project: Option<String>,
    /// 0 to 9; 9 goes first.
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=9))]
    priority: Option<u8>,
    /// Image of the machine or container to build in.
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Repository to build instead of a directory.
    #[arg(long, value_name = "URL", requires = "reference", requires = "image")]
    git: Option<String>,
    /// Branch, tag or commit of the repository.
    #[arg(long = "ref", value_name = "REF", id = "reference", requires = "git")]
    reference: Option<String>,
    /// What the version built from the repository is called. [default: the ref]
    #[arg(long, value_name = "VERSION", requires = "git")]
    version_name: Option<String>,
    /// Makes a repeated submit harmless. [default: a random one]
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
    /// Print the identifier and do not follow the build.
    #[arg(long, short)]
    detach: bool,
    /// File or directory for what comes out. [default: the file's own name, here]
    #[arg(long, short, value_name = "PATH", conflicts_with = "detach")]
    output: Option<PathBuf>,
    #[command(flatten)]
    json: JsonFlag,
}

/// Submits a build, follows it, fetches its file, and ends as the build did.
pub async fn submit(client: &Client, args: SubmitArgs) -> Result<(), Exit> {
    let client = &client.clone().with_trace_of_environment();
    if let Some(output) = &args.output {
        fetch::check_output(output)?;
    }
    let key = match &args.idempotency_key {
        Some(key) => key.clone(),
        None => random_key()?,
    };
    let id = match &args.git {
        Some(url) => {
            let build = repository(&args, url)?;
            let submitted = again(|| async { Ok(client.submit_git_build(&build, Some(&key)).await?) });
            say(&args, &submitted.await?, |build| &build.id)
        }
        None => {
            let build = directory(&args).await?;
            let bar = Bar::new("uploading", build.source.size());
            let submitted = again(|| client.submit_build(&build, Some(&key), bar.progress())).await;
            drop(bar);
            say(&args, &submitted?, |build| &build.id)
        }
    };
    if args.detach {
        return Ok(());
    }
    let screen = Screen::new(args.json.format().is_json());
    let followed = follow(client, &id, &screen).await?;
    drop(screen);
    match followed {
        Followed::Ended(build) => finish::finish(client, &build, args.output.as_deref(), args.json.format()).await,
        Followed::Detached => finish::detached(&id),
    }
}

/// Says that the build was taken in, and returns its identifier.
fn say<T: Serialize>(args: &SubmitArgs, submitted: &T, id: impl Fn(&T) -> &String) -> String {
    let id = id(submitted).clone();
    if args.detach {
        args.json.format().print(submitted, |_| id.clone());
    } else {
        eprintln!("-- submitted as {id}");
    }
    id
}

/// Repeats a submit that got no answer.
async fn again<T, F>(submit: impl Fn() -> F) -> Result<T, Exit>
where
    F: Future<Output = Result<T, TransferError>>,
{
    let mut tries = 1;
    loop {
        match submit().await {
            Ok(submitted) => return Ok(submitted),
            Err(TransferError::Call(ClientError::Unreachable(why))) if tries < TRIES_MAX => {
                eprintln!("-- no answer ({why}); trying again");
                tokio::time::sleep(PAUSE_FIRST * (1 << tries)).await;
                tries += 1;
            }
            Err(TransferError::Call(error)) => return Err(error.into()),
            Err(error) => return Err(error.into()),
        }
    }
}

async fn directory(args: &SubmitArgs) -> Result<NewBuild, Exit> {
    let certs = match &args.certs {
        Some(path) => {
            Some(source::open_certs(path).map_err(|why| Exit::usage(format!("--certs {}: {why}", path.display())))?)
        }
        None => None,
    };
    let directory = args.directory.clone().unwrap_or_else(|| PathBuf::from("."));
    // Certificates go a way of their own, on which they are encrypted; and what came out of builds is no source.
    let named = args.certs.iter().chain(&args.output).cloned();
    let packed = source::pack(directory, named.chain(results::unchanged()).collect()).await?;
    let files = text::count(packed.files, "file", "files");
    eprintln!("-- packed {files}, {}", text::bytes(packed.file.size()));
    if !packed.left_out.is_empty() {
        let names: Vec<String> = packed.left_out.iter().map(|name| text::printable(name)).collect();
        eprintln!("-- left out, as certificates or results of builds: {}", names.join(", "));
    }
    Ok(NewBuild {
        platform: args.platform.clone().unwrap_or_default(),
        project: args.project.clone(),
        priority: args.priority,
        base_image: args.image.clone(),
        source: packed.file,
        source_sha256: Some(packed.sha256),
        certs,
    })
}

fn repository(args: &SubmitArgs, url: &str) -> Result<SubmitGitBuild, Exit> {
    let reference = args.reference.clone().unwrap_or_default();
    let project = args.project.clone().or_else(|| project_of(url));
    Ok(SubmitGitBuild {
        project_slug: project.ok_or_else(|| Exit::usage("the address names no project; give --project"))?,
        version: args.version_name.clone().unwrap_or_else(|| reference.clone()),
        source_url: url.to_owned(),
        reference,
        docker_image: args.image.clone().unwrap_or_default(),
        priority: args.priority,
    })
}

/// The last part of a repository's address.
fn project_of(url: &str) -> Option<String> {
    let last = url.trim_end_matches('/').rsplit(['/', ':']).next()?;
    let name = last.strip_suffix(".git").unwrap_or(last);
    (!name.is_empty()).then(|| name.to_owned())
}

fn random_key() -> Result<String, Exit> {
    let mut random = [0; 16];
    getrandom::fill(&mut random)
        .map_err(|error| Exit::failed(format!("the system gives no random numbers: {error}")))?;
    Ok(format!("{:032x}", u128::from_be_bytes(random)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_called_as_its_repository() {
        let project = |url| project_of(url).unwrap_or_default();
        assert_eq!(project("https://git.example/acme/app.git"), "app");
        assert_eq!(project("git@git.example:app"), "app");
        assert_eq!(project("https://git.example/acme/app/"), "app");
        assert_eq!(project("///"), "");
    }
}
