//! The spec of a schedule: its rule, and the run that each fire starts.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use baton_core::cron::{Cron, CronError, ZONE_DEFAULT, ZONE_FIELD};
use baton_core::machine::Options;
use baton_core::order::PRIORITY_DEFAULT;
use baton_core::retry::{INTERVAL_MS_MAX, RetryPolicy};
use baton_core::schedule::{CATCHUP_DEFAULT, CATCHUP_MAX, Overlap, lateness};
use baton_core::{Millis, machine};
use baton_proto::{ChangeSchedule, CreateSchedule, ScheduledRun, SubmitRun, Time};
use baton_store::{Due, FireRun, Idempotency, Lane, LaneName, NewRun, Schedule};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::service::submit;
use crate::service::workflows::invalid;
use crate::{App, Error};

/// Largest spec, in bytes: the scheduler reads many at once.
const SPEC_BYTES_MAX: usize = 256 * 1024;
/// Longest lateness by chance: a day.
const JITTER_MS_MAX: u64 = 24 * 3_600 * 1_000;

/// What a schedule does. Kept in the store: never change the meaning of a field.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Spec {
    pub cron: String,
    pub time_zone: String,
    #[serde(default)]
    pub jitter_ms: u64,
    pub max_catchup: u32,
    #[serde(default)]
    pub overlap: Overlap,
    pub run: ScheduledRun,
    /// The run is a workflow. Not kept in `run`, which versions before this would refuse to read.
    #[serde(default)]
    pub workflow: bool,
    /// The input of the run, sealed, in base 64; then there is none in `run`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed_input: Option<String>,
}

impl Spec {
    /// Of a schedule to be made.
    pub(super) fn new(wanted: CreateSchedule) -> Spec {
        Spec {
            cron: wanted.cron,
            time_zone: wanted.time_zone.filter(|zone| !zone.is_empty()).unwrap_or_else(|| ZONE_DEFAULT.into()),
            jitter_ms: wanted.jitter_ms.unwrap_or(0),
            max_catchup: wanted.max_catchup.unwrap_or(CATCHUP_DEFAULT),
            overlap: wanted.overlap.unwrap_or_default(),
            workflow: wanted.run.workflow,
            run: ScheduledRun { workflow: false, ..wanted.run },
            sealed_input: None,
        }
    }

    /// Of a schedule that is there.
    pub(super) fn read(app: &App, schedule: &Schedule) -> Result<Spec, Error> {
        let mut spec: Spec = serde_json::from_str(&schedule.spec).map_err(|error| {
            tracing::error!(schedule = schedule.id, %error, "a schedule cannot be read");
            Error::Internal
        })?;
        if let Some(sealed) = spec.sealed_input.take() {
            let opened = BASE64.decode(sealed).ok().and_then(|sealed| app.secrets.ring().open_payload(&sealed));
            let input = opened.and_then(|input| RawValue::from_string(String::from_utf8(input.into()).ok()?).ok());
            spec.run.input = Some(input.ok_or_else(|| {
                // Or sealed by another server a moment ago: whoever asks again finds it.
                tracing::error!(schedule = schedule.id, "the input of a schedule cannot be opened");
                Error::PayloadLost
            })?);
        }
        Ok(spec)
    }

    /// As it is compared, with its input in plain.
    pub(super) fn plain(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// As it is kept.
    pub(super) fn write(&self, app: &App, namespace: &str) -> String {
        let mut spec = self.clone();
        if app.namespaces.seals(namespace)
            && let Some(input) = spec.run.input.take()
        {
            let sealed = app.secrets.ring().seal_payload(namespace, input.get().as_bytes(), &*app.entropy);
            spec.sealed_input = Some(BASE64.encode(sealed));
        }
        spec.plain()
    }

    /// With a change, and whether that is one of the rule.
    pub(super) fn changed(&self, change: &ChangeSchedule) -> (Spec, bool) {
        let spec = Spec {
            cron: change.cron.clone().unwrap_or_else(|| self.cron.clone()),
            time_zone: change.time_zone.clone().unwrap_or_else(|| self.time_zone.clone()),
            jitter_ms: change.jitter_ms.unwrap_or(self.jitter_ms),
            max_catchup: change.max_catchup.unwrap_or(self.max_catchup),
            overlap: change.overlap.unwrap_or(self.overlap),
            workflow: change.run.as_ref().map_or(self.workflow, |run| run.workflow),
            run: ScheduledRun { workflow: false, ..change.run.clone().unwrap_or_else(|| self.run.clone()) },
            sealed_input: None,
        };
        let is_new_rule = (&spec.cron, &spec.time_zone) != (&self.cron, &self.time_zone);
        (spec, is_new_rule)
    }

    /// The rule.
    pub(super) fn rule(&self) -> Result<Cron, Error> {
        Cron::parse(&self.cron, &self.time_zone).map_err(|CronError { field, why }| match field {
            Some(ZONE_FIELD) => invalid("time_zone", format!("is wrong: {why}")),
            Some(field) => invalid("cron", format!("is wrong in the field {field}: {why}")),
            None => invalid("cron", format!("is wrong: {why}")),
        })
    }

    /// Checks everything that somebody said.
    pub(super) fn check(&self, app: &App) -> Result<Cron, Error> {
        let cron = self.rule()?;
        if self.jitter_ms > JITTER_MS_MAX {
            return Err(invalid("jitter_ms", "must be at most a day"));
        }
        if !(1..=CATCHUP_MAX).contains(&self.max_catchup) {
            return Err(invalid("max_catchup", format!("must be 1 to {CATCHUP_MAX}")));
        }
        if self.run.run_timeout_ms.is_some_and(|ms| !(1..=100 * INTERVAL_MS_MAX).contains(&ms)) {
            return Err(Error::field("run.run_timeout_ms", "must be more than nothing and at most 100 years"));
        }
        submit::check_run(app, &self.as_submitted()).map_err(|error| error.within("run"))?;
        match self.plain().len() > SPEC_BYTES_MAX {
            true => Err(Error::TooLarge { limit: SPEC_BYTES_MAX }),
            false => Ok(cron),
        }
    }

    /// The run as somebody would submit it.
    fn as_submitted(&self) -> SubmitRun {
        let run = self.run.clone();
        SubmitRun {
            input: run.input,
            priority: run.priority,
            key: run.key,
            affinity: run.affinity,
            retry: run.retry,
            max_losses: run.max_losses,
            timeout_ms: run.timeout_ms,
            ..SubmitRun::new(run.queue, run.kind)
        }
    }

    /// The lane of its runs.
    pub(super) async fn lane(&self, app: &App, namespace: &str) -> Result<Lane, Error> {
        let (queue, kind) = (self.run.queue.clone(), self.run.kind.clone());
        let name = LaneName { namespace: namespace.into(), queue, kind };
        let lane = app.lanes.get(vec![name]).await?.pop().ok_or(Error::Internal)?;
        if self.workflow {
            app.lanes.mark_workflows(&[lane]).await?;
        }
        Ok(lane)
    }

    /// The run of the fire at this time. Its key is made from schedule and time, so that it is started once, whoever does it and however often.
    pub(super) fn fire(&self, app: &App, schedule: &Schedule, lane: Lane, at: Millis) -> FireRun {
        let late = lateness(&schedule.id, at, self.jitter_ms as Millis);
        let key = format!("schedule:{}:{}", schedule.id, Time(at));
        self.run_due(app, schedule, lane, at, Due::At(at.saturating_add(late)), Some(key))
    }

    /// A run that somebody wants now.
    pub(super) fn now(&self, app: &App, schedule: &Schedule, lane: Lane, now: Millis, key: Option<&str>) -> FireRun {
        let key = key.map(|key| format!("schedule:{}:trigger:{key}", schedule.id));
        self.run_due(app, schedule, lane, now, Due::Now, key)
    }

    fn run_due(
        &self,
        app: &App,
        schedule: &Schedule,
        lane: Lane,
        at: Millis,
        due: Due,
        key: Option<String>,
    ) -> FireRun {
        let run = self.run.clone();
        let input = run.input.map_or_else(Bytes::new, |input| Bytes::from(String::from(Box::<str>::from(input))));
        let input = match !input.is_empty() && app.namespaces.seals(&schedule.namespace) {
            true => app.secrets.ring().seal_payload(&schedule.namespace, &input, &*app.entropy),
            false => input,
        };
        let options = Options {
            retry: run.retry.unwrap_or_else(|| match self.workflow {
                true => RetryPolicy { max_attempts: 1, ..RetryPolicy::default() },
                false => RetryPolicy::default(),
            }),
            max_losses: run.max_losses.unwrap_or(machine::LOSSES_DEFAULT),
            timeout_ms: run.timeout_ms,
            run_timeout_ms: run.run_timeout_ms,
        };
        FireRun {
            at,
            run: NewRun {
                lane,
                priority: run.priority.unwrap_or(PRIORITY_DEFAULT),
                due,
                key: run.key,
                affinity: run.affinity,
                idempotency: key.map(|key| once(&schedule.namespace, key)),
                options: (options != Options::default()).then_some(options),
                retry_of: None,
                trace: app.traces.begin(None),
                input,
            },
            die: app.entropy.bits(),
            timeout_ms: run.run_timeout_ms.map(|ms| ms as Millis),
        }
    }
}

/// The key alone says that it is the same fire: the template may have been changed between two tries.
fn once(namespace: &str, key: String) -> Idempotency {
    let mut fingerprint = [0; 16];
    fingerprint.copy_from_slice(&Sha256::digest(&key)[..16]);
    Idempotency { key: format!("{namespace}\u{1f}{key}"), fingerprint }
}
