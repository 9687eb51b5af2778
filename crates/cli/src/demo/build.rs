//! The build of the demo: a small project is packed and submitted, one worker begins to build it and is killed, another one finishes it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use baton::proto::{BuildFile, BuildStatus, BuildView};
use baton::{Client, Downloaded, NewBuild};
use baton_core::{LeaseEnd, State};
use tokio::time::{Instant, sleep};

use super::children::{BuilderProcess, Server};
use super::screen::Log;
use super::verify::Summary;
use crate::commands::build::text;
use crate::commands::submit::source;
use crate::exit::Exit;

pub const BUILDER_NAMES: [&str; 2] = ["beaver", "badger"];
/// What is built for. The recipe is plain `sh`, so that any machine will do.
pub const PLATFORM: &str = "linux";
const ARTIFACT: &str = "song.txt";
const PARTS: [&str; 4] = [
    "The baton goes from hand to hand,\n",
    "and nobody runs with two.\n",
    "If one should fall and cannot stand,\n",
    "another runs it through.\n",
];
/// The worker is killed when it has come this far.
const FATAL_LINE: &str = "adding parts/2";
const RECIPE: &str = r#"[build.linux]
run = '''
for part in parts/*; do
  echo "adding $part"
  cat "$part" >> "$BATON_OUTPUT_DIR/song.txt"
  sleep 0.3
done
'''
"#;
/// How long all of it may take.
/// How often the server is asked who builds.
const LOOK: Duration = Duration::from_millis(50);
/// How long the server may wait for a line of the log before it answers.
const LINE_WAIT: Duration = Duration::from_secs(5);
const LINES_MAX: usize = 100;

/// The build, and who may build it.
pub struct BuildStory {
    client: Client,
    builders: Vec<BuilderProcess>,
    directory: PathBuf,
    log: Log,
    /// How long it may take.
    longest: Duration,
}

/// What came out.
pub struct Built {
    id: String,
    /// Whose worker was killed: name and incarnation.
    fallen: (&'static str, String),
    artifact: Downloaded,
    content: Vec<u8>,
    expected_sha256: String,
}

impl BuildStory {
    /// Starts the workers that can build.
    pub fn start(server: &Server, directory: &Path, log: Log, longest: Duration) -> Result<BuildStory, Exit> {
        let start = |name| BuilderProcess::start(server, name, &directory.join(name));
        let builders = BUILDER_NAMES.into_iter().map(start).collect::<Result<_, Exit>>()?;
        Ok(BuildStory { client: server.client.clone(), builders, directory: directory.to_owned(), log, longest })
    }

    /// Plays from the project to its artifact.
    pub async fn play(&self) -> Result<Built, Exit> {
        match tokio::time::timeout(self.longest, self.all()).await {
            Ok(built) => built,
            Err(_) => Err(Exit::failed("the build of the demo took too long")),
        }
    }

    async fn all(&self) -> Result<Built, Exit> {
        let id = self.submit().await?;
        self.wait_for_line(&id, FATAL_LINE).await?;
        let fallen = self.kill_its_worker(&id).await?;
        let build = self.wait_for_end(&id, &fallen.1).await?;
        if build.status != BuildStatus::Completed {
            let why = build.error_message.unwrap_or_default();
            return Err(Exit::failed(format!("the build of the demo is {}: {why}", build.status.as_str())));
        }
        let path = self.directory.join(ARTIFACT);
        let artifact = self.client.download_result(&id, &path, Arc::new(drop)).await?;
        self.log.line(format!("{ARTIFACT} is downloaded: {}", text::bytes(artifact.size)));
        let expected = self.directory.join("expected");
        fs::write(&expected, PARTS.concat())?;
        let expected_sha256 = baton::sha256_of(&File::open(expected)?)?;
        Ok(Built { id, fallen, artifact, content: fs::read(path)?, expected_sha256 })
    }

    async fn submit(&self) -> Result<String, Exit> {
        let project = self.directory.join("project");
        fs::create_dir_all(project.join("parts"))?;
        fs::write(project.join("baton.toml"), RECIPE)?;
        for (number, part) in PARTS.iter().enumerate() {
            fs::write(project.join("parts").join(format!("{}.txt", number + 1)), part)?;
        }
        let packed = source::pack_quietly(project).await?;
        let build = NewBuild {
            platform: PLATFORM.into(),
            project: Some("demo".into()),
            priority: None,
            base_image: None,
            source: packed.file,
            source_sha256: Some(packed.sha256),
            certs: None,
        };
        let submitted = self.client.submit_build(&build, Some("the build of the demo"), Arc::new(drop)).await?;
        self.log.line(format!("a project of {} files submitted to be built", packed.files));
        Ok(submitted.id)
    }

    /// Waits until the build has printed this.
    async fn wait_for_line(&self, id: &str, wanted: &str) -> Result<(), Exit> {
        let mut after = 0;
        loop {
            let page = self.client.build_logs(id, after, LINES_MAX, LINE_WAIT).await?;
            if page.logs.iter().any(|line| line.message.starts_with(wanted)) {
                return Ok(());
            }
            match page.logs.last() {
                Some(last) => after = last.number,
                None if self.client.build(id).await?.status.is_ended() => {
                    return Err(Exit::failed("the build of the demo ended before its worker could be killed"));
                }
                None => {}
            }
        }
    }

    async fn kill_its_worker(&self, id: &str) -> Result<(&'static str, String), Exit> {
        let lost = || Exit::failed("nobody has the build of the demo");
        let worker = self.client.build(id).await?.worker_id.ok_or_else(lost)?;
        let name = self.client.worker(&worker).await?.name;
        let builder = self.builders.iter().find(|builder| builder.name == name).ok_or_else(lost)?;
        builder.kill()?;
        self.log.line(format!("kill -KILL {}: {name} falls silent in the middle of the build", builder.pid));
        Ok((builder.name, worker))
    }

    async fn wait_for_end(&self, id: &str, fallen: &str) -> Result<BuildView, Exit> {
        let begun = Instant::now();
        let mut is_taken_up = false;
        loop {
            let build = self.client.build(id).await?;
            let successor = build.worker_id.as_deref().filter(|worker| *worker != fallen);
            if let Some(successor) = successor.filter(|_| !is_taken_up) {
                is_taken_up = true;
                let name = self.client.worker(successor).await?.name;
                let after = begun.elapsed().as_millis();
                self.log.line(format!("{name} takes the build up after {after} ms, from its beginning"));
            }
            if build.status.is_ended() {
                return Ok(build);
            }
            sleep(LOOK).await;
        }
    }

    /// Asks the workers to stop, and waits for them.
    pub async fn stop(self) {
        for builder in self.builders {
            builder.stop().await;
        }
    }
}

impl Built {
    /// Asks the server how the build went, and adds that to the summary.
    pub async fn verify(&self, client: &Client, summary: &mut Summary) -> Result<(), Exit> {
        let (name, fallen) = &self.fallen;
        let run = client.run(&self.id).await?;
        let events = client.history(&self.id).await?.events;
        let completed = events.iter().filter(|event| event.event == State::Completed.as_str()).count();
        let is_lost = |reason: Option<&str>| reason == Some(LeaseEnd::Lost.as_str());
        let lost: Vec<_> = events.iter().filter(|event| is_lost(event.reason.as_deref())).collect();
        summary
            .check(completed == 1, || format!("the history of the build says {completed} times that it was completed"));
        summary.check(lost.len() == 1 && lost[0].worker_id.as_ref() == Some(fallen), || {
            format!("the build was taken from {} workers, not once from {name}", lost.len())
        });
        summary.check(run.epoch == 2, || format!("the build has epoch {}, not 2", run.epoch));

        let result = client.build(&self.id).await?.files.into_iter().find(|file| file.kind == "result");
        let is_right = |file: &BuildFile| file.sha256 == self.expected_sha256 && file.name == ARTIFACT;
        summary.check(result.as_ref().is_some_and(is_right), || format!("the server has another artifact: {result:?}"));
        summary.check(self.artifact.sha256 == self.expected_sha256, || "the artifact has another sha-256".into());
        summary.check(self.content == PARTS.concat().as_bytes(), || "the artifact has another content".into());

        summary
            .row("build", format!("completed under epoch {}, its first worker killed in the middle of it", run.epoch));
        let sum = self.artifact.sha256.get(..12).unwrap_or_default();
        summary.row(
            "its artifact",
            format!("{ARTIFACT}, {}, sha-256 {sum}..., as it should be", text::bytes(self.artifact.size)),
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recipe_is_the_one_of_the_project() {
        let recipe: toml::Table = toml::from_str(RECIPE).unwrap();
        let run = recipe["build"][PLATFORM]["run"].as_str().unwrap();
        assert!(run.contains(&format!("$BATON_OUTPUT_DIR/{ARTIFACT}")), "{run}");
    }
}
