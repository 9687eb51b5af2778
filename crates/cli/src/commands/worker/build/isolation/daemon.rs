//! What stands behind containers: whether it works at all, and whose fault it is when a container did not.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use baton::runs::Failure;
use tokio::process::Command;
use tokio::time::timeout;

use super::super::run::without_baton;

/// How docker and podman end when they, and not what they ran, did not work. A recipe may end so as well.
const OWN_FAILURE: i32 = 125;
/// How long one question may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a worker takes no builds when it cannot run containers.
const PAUSE: Duration = Duration::from_secs(60);

/// A container that a build is run in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Container {
    pub program: &'static str,
    pub image: String,
    /// Written by the program as soon as there is a container.
    pub id_file: PathBuf,
}

impl Container {
    /// Why this was not the recipe's failure; nothing when it was.
    pub async fn excuse(&self, status: ExitStatus) -> Option<Failure> {
        if status.code() != Some(OWN_FAILURE) {
            return None;
        }
        if let Err(why) = answers(self.program).await {
            return Some(Failure::give_back(format!("this worker cannot run containers: {why}"), PAUSE));
        }
        let was_made = std::fs::metadata(&self.id_file).is_ok_and(|file| file.len() > 0);
        if was_made {
            return None;
        }
        // Whoever names an image that cannot be had must not stop one worker after the other.
        if let Err(why) = knows(self.program, &self.image).await {
            return Some(Failure::new(format!("the image cannot be had: {why}")).code("image"));
        }
        let message = format!("this worker cannot run containers: {} made none ({status})", self.program);
        Some(Failure::give_back(message, PAUSE))
    }
}

/// Whether the program, and what it talks to, works at all.
pub async fn answers(program: &str) -> Result<(), String> {
    ask(program, &["version"]).await.map_err(|why| format!("{program} does not answer: {why}"))
}

/// Whether an image is there to be run.
pub async fn knows(program: &str, image: &str) -> Result<(), String> {
    let known = ask(program, &["image", "inspect", image]).await;
    known.map_err(|why| {
        format!("{program} does not know the image {image} ({why}); `{program} pull {image}` fetches it")
    })
}

async fn ask(program: &str, arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    without_baton(&mut command);
    match timeout(ANSWER_TIMEOUT, command.output()).await {
        Ok(Ok(output)) if output.status.success() => Ok(()),
        Ok(Ok(output)) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().rfind(|line| !line.trim().is_empty()).map(|line| line.trim().to_owned());
            Err(last.unwrap_or_else(|| output.status.to_string()))
        }
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {ANSWER_TIMEOUT:?}")),
    }
}
