//! `baton login`: keep a server and the key to it.

use std::io::{BufRead, IsTerminal, Read, Write};

use baton::{Client, ClientError, RunFilter};
use clap::Args;

use crate::connection::Connection;
use crate::contexts::{self, Context, Contexts, normal};
use crate::exit::Exit;
use crate::os::EchoOff;

/// Longest key that is read.
const KEY_BYTES_MAX: u64 = 4_096;
/// The code of a program that was interrupted.
const INTERRUPTED: i32 = 130;

#[derive(Args)]
#[command(after_help = "Examples:
  baton login https://baton.example.com
  baton login http://10.0.0.10:7400 --name office
  baton login https://10.0.0.10:7400 --tls-pin sha256:5f0c...
  cat key.txt | baton login https://baton.example.com --name prod

Reads the key from the standard input, or takes --api-key or BATON_API_KEY, or asks for it on the terminal, and checks
it against the server. Server and key are kept in $XDG_CONFIG_HOME/baton/contexts.toml, which nobody else can read, and
are used from then on: `baton context use` chooses another server, `--context NAME` does so for one command. The key is
sent to this URL and to no other.")]
pub struct LoginArgs {
    /// Address of the server, like https://baton.example.com.
    #[arg(value_name = "URL")]
    server: String,
    /// What you call it. [default: its host]
    #[arg(long)]
    name: Option<String>,
}

/// Keeps a server and its key, and makes it the one in use.
pub async fn login(connection: &Connection, args: LoginArgs) -> Result<(), Exit> {
    let name = args.name.unwrap_or_else(|| host(&args.server));
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(Exit::usage("a context needs a name; give --name"));
    }
    if host(&args.server).contains('@') {
        return Err(Exit::usage("the URL of a server has no user and no password in it; the API key is asked for"));
    }
    let (ca, tls_pin) = connection.tls.kept()?;
    let tls = connection.tls.options(None)?;
    // Nobody types a key for an address that cannot be one, or for a server that is not there.
    Client::new_with_tls(&args.server, "", &tls)?.healthz().await?;
    let key = find_key(&args.server, connection.api_key.as_deref()).await?;
    if key.trim().is_empty() {
        return Err(Exit::usage("no key was given"));
    }
    check(&Client::new_with_tls(&args.server, &key, &tls)?).await?;
    let context = Context { url: normal(&args.server), api_key: Some(key.trim().to_owned()), ca, tls_pin };
    Contexts::change(|all| {
        all.contexts.insert(name.clone(), context);
        all.current = Some(name.clone());
        Ok(())
    })?;
    let place = contexts::path().unwrap_or_default();
    eprintln!("logged in to {} as the context {name}, kept in {}", normal(&args.server), place.display());
    Ok(())
}

/// Whether the server knows the key, whatever that may do.
async fn check(client: &Client) -> Result<(), Exit> {
    match client.runs(&RunFilter { limit: Some(1), ..RunFilter::default() }).await {
        Ok(_) => Ok(()),
        // It is known, and good for something else.
        Err(error) if error.code() == Some("forbidden") => Ok(()),
        Err(ClientError::Refused { status: 401 | 403, message, .. }) => {
            Err(Exit::refused(format!("the server does not take this key: {message}. Nothing was kept.")))
        }
        Err(error) => Err(error.into()),
    }
}

/// The key from the standard input, or as given, or as somebody types it.
async fn find_key(url: &str, given: Option<&str>) -> Result<String, Exit> {
    let is_terminal = std::io::stdin().is_terminal();
    let piped = if is_terminal { String::new() } else { read_line()? };
    match given {
        Some(given) if piped.is_empty() => {
            eprintln!("baton: with the key of --api-key or BATON_API_KEY");
            Ok(given.to_owned())
        }
        None if is_terminal => ask_for_key(url).await,
        Some(_) | None => Ok(piped),
    }
}

async fn ask_for_key(url: &str) -> Result<String, Exit> {
    let echo = EchoOff::of_stdin()?;
    eprint!("API key for {}: ", normal(url));
    std::io::stderr().flush()?;
    // The terminal must not stay silent when somebody changes their mind.
    let line = tokio::select! {
        line = tokio::task::spawn_blocking(read_line) => line,
        _ = tokio::signal::ctrl_c() => {
            drop(echo);
            eprintln!();
            std::process::exit(INTERRUPTED);
        }
    };
    drop(echo);
    eprintln!();
    Ok(line.map_err(std::io::Error::other)??)
}

fn read_line() -> std::io::Result<String> {
    let mut line = String::new();
    std::io::stdin().lock().take(KEY_BYTES_MAX).read_line(&mut line)?;
    Ok(line.trim().to_owned())
}

/// The host of a URL, with its port if it names one.
fn host(url: &str) -> String {
    let normal = normal(url);
    let rest = normal.split_once("://").map_or(normal.as_str(), |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_called_as_its_host() {
        assert_eq!(host("https://Baton.example.com/"), "baton.example.com");
        assert_eq!(host("http://10.0.0.10:7400/x"), "10.0.0.10:7400");
    }
}
