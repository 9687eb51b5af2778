//! The end of following a build: its file is fetched, and the program ends as the build did.

use std::path::{Path, PathBuf};

use baton::Client;
use baton::proto::{BuildStatus, BuildView};
use serde::Serialize;

use super::fetch;
use super::text;
use crate::exit::Exit;
use crate::output::Format;

/// The code of a program that was interrupted.
const INTERRUPTED: i32 = 130;

/// What is printed about a build that has ended.
#[derive(Serialize)]
struct Finished<'a> {
    #[serde(flatten)]
    build: &'a BuildView,
    /// Where its file was written to.
    output: Option<PathBuf>,
}

/// Fetches the file of a completed build, says how it ended, and ends with 1 unless it completed and left
/// the file that was asked for.
pub async fn finish(client: &Client, build: &BuildView, output: Option<&Path>, format: Format) -> Result<(), Exit> {
    let fetched = match (build.status, fetch::result(build)) {
        (BuildStatus::Completed, Some(file)) => Some(fetch::fetch(client, build, file, output).await?),
        _ => None,
    };
    format.print(&Finished { build, output: fetched.clone() }, |_| match &fetched {
        Some(path) => {
            let size = fetch::result(build).map_or(0, |file| file.size);
            format!("{} ({})", path.display(), text::bytes(size))
        }
        None => String::new(),
    });
    let why = build.error_message.as_deref().map(text::printable).unwrap_or_default();
    match build.status {
        BuildStatus::Completed => match (&fetched, output) {
            (None, Some(_)) => Err(Exit::failed(format!(
                "the build {} completed, but left no file for --output: its recipe puts files into BATON_OUTPUT_DIR",
                build.id
            ))),
            (None, None) if !format.is_json() => {
                eprintln!("-- it left no file");
                Ok(())
            }
            (None, None) | (Some(_), _) => Ok(()),
        },
        _ if format.is_json() => Err(Exit::failed_silently()),
        BuildStatus::Cancelled => Err(Exit::failed(format!("the build {} was cancelled", build.id))),
        _ => Err(Exit::failed(format!("the build {} failed: {why}", build.id))),
    }
}

/// Says how to come back to a build, and ends the program as one that was interrupted.
pub fn detached(id: &str) -> ! {
    eprintln!(
        "-- the build goes on without you: `baton build logs -f {id}` follows it, `baton build cancel {id}` stops it"
    );
    std::process::exit(INTERRUPTED);
}
