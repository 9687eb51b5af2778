//! One build in the hands of this worker, from its claim to its file.

use std::sync::Arc;
use std::time::Duration;

use baton::Client;
use baton::proto::ClaimedRun;
use baton::runs::{Cancel, Failure};
use serde_json::Value;
use tokio::time::sleep;

use super::cache::Cache;
use super::disk::{self, Disk};
use super::isolation::{Isolation, Job, Limits};
use super::logs::{self, Logs};
use super::orphans::Orphanage;
use super::places::{Places, WorkDirectory};
use super::recipe::Recipes;
use super::result::{self, Gathered};
use super::run;
use super::source::{Fetch, Input};
use crate::commands::build::text;
use crate::commands::worker::health;
use crate::commands::worker::process::trace_variables;

const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// How often the machine is measured while it builds.
const MEASURE_EVERY: Duration = Duration::from_secs(10);

/// What builds have in common.
pub struct Builder {
    pub client: Client,
    pub recipes: Recipes,
    pub isolation: Isolation,
    pub image: Option<String>,
    pub limits: Limits,
    pub cache: Cache,
    pub work: WorkDirectory,
    pub disk: Disk,
    /// For builds that are plain processes.
    pub orphanage: Option<Orphanage>,
}

/// One build.
struct Attempt<'a> {
    builder: &'a Builder,
    run: &'a ClaimedRun,
    cancel: &'a Cancel,
    places: &'a Places,
}

impl Builder {
    /// Builds. Whatever happens, its directories are gone afterwards, and everything it started.
    pub async fn build(self: Arc<Self>, run: ClaimedRun, cancel: Cancel) -> Result<Value, Failure> {
        let outcome = match self.work.places(&run.run_id, run.epoch) {
            Ok(places) => {
                let attempt = Attempt { builder: &self, run: &run, cancel: &cancel, places: &places };
                let outcome = attempt.all().await;
                if let Err(error) = places.remove().await {
                    tracing::warn!(build = %run.run_id, %error, "cannot remove the directory of a build");
                }
                outcome
            }
            Err(error) => Err(self.disk.problem("the worker cannot make a directory", &error)),
        };
        if let Err(failure) = &outcome
            && disk::is_for_want_of_room(failure)
        {
            self.make_room().await;
        }
        outcome.map(|()| Value::Null).map_err(|failure| disk::unless_hopeless(failure, run.epoch))
    }

    /// Builds need the room more than those who may never come again.
    async fn make_room(&self) {
        let cache = self.cache.clone();
        match tokio::task::spawn_blocking(move || cache.empty()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "cannot empty the cache of sources"),
            Err(error) => tracing::warn!(%error, "emptying the cache of sources fell over"),
        }
    }
}

impl Attempt<'_> {
    async fn all(&self) -> Result<(), Failure> {
        let (client, id, lease) = (&self.builder.client, &self.run.run_id, &self.run.lease);
        let (logs, pump) = logs::start(client.clone(), id.clone(), lease.clone());
        let built = self.until_gathered(&logs).await;
        if let Err(failure) = &built
            && self.cancel.reason().is_none()
        {
            let what = if failure.pause().is_some() { "given back" } else { "failed" };
            logs.say(format!("{what}: {}", failure.message())).await;
        }
        // The log before the end: nothing can be added to it afterwards.
        pump.finish(logs, self.cancel).await;
        match built? {
            // The worker's loop completes a build that left nothing.
            None => Ok(()),
            Some(gathered) => run::unless_stopped(self.cancel, self.send(gathered)).await,
        }
    }

    async fn until_gathered(&self, logs: &Logs) -> Result<Option<Gathered>, Failure> {
        let input: Input = serde_json::from_str(self.run.input.as_deref().map_or("null", |input| input.get()))
            .map_err(|error| Failure::rejected(format!("this is no build: {error}")))?;
        let measuring = self.measure();
        let building = async {
            self.fetch(&input, logs).await?;
            self.recipe(&input, logs).await?;
            self.gather(logs).await
        };
        tokio::select! {
            built = building => built,
            never = measuring => match never {},
        }
    }

    async fn fetch(&self, input: &Input, logs: &Logs) -> Result<(), Failure> {
        let fetch = Fetch {
            client: &self.builder.client,
            id: &self.run.run_id,
            lease: &self.run.lease,
            cache: &self.builder.cache,
            places: self.places,
            logs,
            disk: self.builder.disk,
        };
        fetch.source(input, self.cancel).await?;
        if input.certs { run::unless_stopped(self.cancel, fetch.certs()).await } else { Ok(()) }
    }

    async fn recipe(&self, input: &Input, logs: &Logs) -> Result<(), Failure> {
        let recipe = self.builder.recipes.find(&input.platform, &self.places.source);
        let recipe = recipe.map_err(|error| Failure::new(error).code("recipe").not_retryable())?;
        let job = Job {
            id: &self.run.run_id,
            epoch: self.run.epoch,
            platform: &input.platform,
            recipe: &recipe,
            image: input.image().or(self.builder.image.as_deref()),
            places: self.places,
            limits: self.builder.limits,
            trace: trace_variables(self.run).map(|(name, value)| (name, value.to_owned())).collect(),
        };
        let plan = self.builder.isolation.plan(&job);
        let plan = plan.map_err(|error| Failure::new(error).code("image").not_retryable())?;
        logs.say("running the recipe").await;
        let family =
            self.builder.orphanage.as_ref().map(|orphanage| orphanage.family("BATON_OUTPUT_DIR", &self.places.output));
        let built = run::run(&plan, self.builder.limits.time, self.cancel, logs, family.as_ref()).await;
        built.map_err(|failure| self.builder.disk.judge(failure, &self.places.root, logs.spoke_of_full_disk()))
    }

    async fn gather(&self, logs: &Logs) -> Result<Option<Gathered>, Failure> {
        let (output, scratch) = (self.places.output.clone(), self.places.root.clone());
        let gathered = tokio::task::spawn_blocking(move || result::gather(&output, &scratch)).await;
        let gathered = gathered.map_err(|error| format!("gathering the result fell over: {error}"))?;
        let gathered = gathered.map_err(|problem| problem.into_failure(&self.places.output, self.builder.disk))?;
        match &gathered {
            None => logs.say("the recipe worked; it left nothing in BATON_OUTPUT_DIR").await,
            Some(Gathered { file, skipped_links, .. }) => {
                for link in skipped_links {
                    logs.say(format!("left out of the result: the link {link} leads outside")).await;
                }
                logs.say(format!("the recipe worked; uploading {}, {}", file.name(), text::bytes(file.size()))).await;
            }
        }
        Ok(gathered)
    }

    /// Stores the file, which completes the build. Repeated until there is an answer: the same file again does no harm.
    async fn send(&self, gathered: Gathered) -> Result<(), Failure> {
        let Gathered { file, sha256, .. } = gathered;
        loop {
            let (id, lease) = (&self.run.run_id, &self.run.lease);
            match self.builder.client.complete_build(id, lease, &file, &sha256, Arc::new(drop)).await {
                Ok(()) => return Ok(()),
                Err(error) if error.is_transient() => {
                    tracing::warn!(build = %id, %error, "trying to upload again");
                    sleep(RETRY_PAUSE).await;
                }
                Err(error) => {
                    return Err(Failure::new(format!("cannot upload the result: {error}")).code("worker"));
                }
            }
        }
    }

    /// Measures for as long as it is asked to.
    async fn measure(&self) -> std::convert::Infallible {
        loop {
            let measured = health::measure(&self.places.root);
            let (id, lease) = (&self.run.run_id, &self.run.lease);
            // Only for people who look at it later.
            let _ = self.builder.client.add_build_telemetry(id, lease, measured.cpu, measured.memory).await;
            sleep(MEASURE_EVERY).await;
        }
    }
}
