//! suspend: a workflow waits, and its worker lets go of it.

use std::sync::Arc;

use baton_core::retry::INTERVAL_MS_MAX;
use baton_core::{LateVerb, Millis, State};
use baton_store::{Due, Message, StepKind, Store, SuspendAnswer, Suspension};
use bytes::Bytes;

use super::super::{After, payloads, submit};
use super::{check_field, diverged, invalid, refused, too_many};
use crate::app::RESULT_BATCH;
use crate::coalesce::{Coalescer, Item};
use crate::metrics::Metrics;
use crate::refusals::LeaseWrite;
use crate::verb_metrics::timed_each;
use crate::{App, Error};

/// Most sleeps that one suspension names.
const SLEEPS_MAX: usize = 10_000;

impl Item for Suspension {
    fn bytes(&self) -> usize {
        self.sleeps.iter().map(|(_, name, _)| name.len()).sum()
    }
}

pub(crate) fn coalescer(
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
    after: After,
    batch_max: usize,
) -> Coalescer<Suspension, SuspendAnswer> {
    Coalescer::start(batch_max, None, move |suspensions: Vec<Suspension>| {
        let (store, metrics, after) = (store.clone(), metrics.clone(), after.clone());
        async move {
            let runs: Vec<_> = suspensions.iter().map(|suspension| suspension.lease.run).collect();
            let (answers, woken) = metrics.suspend.at_store(store.suspend(suspensions)).await?;
            for (run, answer) in runs.iter().zip(&answers) {
                if let SuspendAnswer::Suspended { .. } = answer {
                    metrics.suspend.runs.inc();
                    metrics.queues.let_go(*run, false);
                }
            }
            after.wake(&woken);
            let slept = |answer: &SuspendAnswer| matches!(answer, SuspendAnswer::Suspended { .. });
            let asleep = runs.into_iter().zip(&answers).filter(|(_, answer)| slept(answer));
            after.events.changed(asleep.map(|(run, _)| (run, Some(State::Sleeping), None)));
            Ok(answers)
        }
    })
}

/// What became of a suspension.
#[derive(Clone, PartialEq, Debug)]
pub enum Suspended {
    /// The lease is over; it is woken then, or by a message.
    Until(Millis),
    /// There is news, and the lease is kept.
    News(Vec<Message>),
}

/// Refuses a suspension that makes no sense.
pub fn check(suspension: &Suspension, awaits_messages: bool) -> Result<(), Error> {
    if suspension.sleeps.is_empty() && suspension.wake_at.is_none() && !awaits_messages {
        return Err(invalid("awaits_messages", "must be true when there is nothing else to wait for"));
    }
    if suspension.sleeps.len() > SLEEPS_MAX {
        return Err(invalid("sleeps", format!("must be at most {SLEEPS_MAX}")));
    }
    for (_, name, due) in &suspension.sleeps {
        check_field("name", name)?;
        let far = match due {
            Due::Now => false,
            Due::After(ms) => *ms > 100 * INTERVAL_MS_MAX as Millis,
            Due::At(at) => *at > submit::DUE_AT_MAX,
        };
        if far {
            return Err(invalid("duration", "must be at most 100 years"));
        }
    }
    Ok(())
}

/// Suspends one run.
pub async fn one(app: &App, suspension: Suspension) -> Result<Suspended, Error> {
    many(app, vec![suspension]).await?.pop().ok_or(Error::Internal)?
}

/// Suspends runs; one answer for each.
pub async fn many(app: &App, suspensions: Vec<Suspension>) -> Result<Vec<Result<Suspended, Error>>, Error> {
    timed_each!(app.metrics.suspend, each_held(app, suspensions))
}

async fn each_held(app: &App, suspensions: Vec<Suspension>) -> Result<Vec<Result<Suspended, Error>>, Error> {
    let asked: Vec<_> = suspensions.iter().map(|suspension| (suspension.lease, names(suspension))).collect();
    let mut answers = Vec::with_capacity(suspensions.len());
    let mut suspensions = suspensions.into_iter().peekable();
    while suspensions.peek().is_some() {
        answers.extend(app.suspensions.call(suspensions.by_ref().take(RESULT_BATCH).collect()).await?);
    }
    let news = payloads::fitting(app, answers.iter_mut().flat_map(news));
    payloads::fill(app, news).await?;
    let settled = answers.into_iter().zip(asked).map(|(answer, (lease, names))| match answer {
        SuspendAnswer::Suspended { until } => Ok(Suspended::Until(until)),
        SuspendAnswer::News(messages) => Ok(Suspended::News(messages)),
        SuspendAnswer::Diverged { position, kind, name } => {
            let asked = names.iter().find(|(at, _)| *at == position).map_or("", |(_, name)| name.as_str());
            Err(diverged(position, (kind, &name), (StepKind::Sleep, asked)))
        }
        SuspendAnswer::TooMany => Err(too_many()),
        SuspendAnswer::Refused(why) => Err(refused(app, LeaseWrite::new(lease, LateVerb::Sleep), why)),
        SuspendAnswer::Unknown => Err(Error::no_run(lease.run)),
    });
    Ok(settled.collect())
}

/// The payloads of what there is instead of a suspension.
fn news(answer: &mut SuspendAnswer) -> impl Iterator<Item = &mut Bytes> {
    let messages = match answer {
        SuspendAnswer::News(messages) => messages.as_mut_slice(),
        _ => &mut [],
    };
    messages.iter_mut().filter_map(|message| message.payload.as_mut())
}

fn names(suspension: &Suspension) -> Vec<(u32, String)> {
    suspension.sleeps.iter().map(|(position, name, _)| (*position, name.clone())).collect()
}
