//! publish: what a workflow shows to those who ask.

use baton_core::{LateVerb, Millis, RunId};
use baton_store::{LeaseRef, Scope, Verdict};
use bytes::Bytes;

use super::super::{payloads, visible};
use super::refused;
use crate::auth::Caller;
use crate::refusals::LeaseWrite;
use crate::{App, Error};

/// Publishes values; one answer for each. The last one of a run counts.
pub async fn many(app: &App, published: Vec<(LeaseRef, Bytes)>) -> Result<Vec<Result<(), Error>>, Error> {
    let run = |one: &(LeaseRef, Bytes)| one.0.run;
    payloads::keep_each(app, published, run, |one| Some(&mut one.1), async |published| write(app, published).await)
        .await
}

async fn write(app: &App, published: Vec<(LeaseRef, Bytes)>) -> Result<Vec<Result<(), Error>>, Error> {
    let asked: Vec<_> = published.iter().map(|(lease, value)| (*lease, value.len())).collect();
    let verdicts = app.store.publish(published).await?;
    let settled = verdicts.into_iter().zip(asked).map(|(verdict, (lease, bytes))| match verdict {
        Verdict::Done { .. } => Ok(()),
        Verdict::Refused(why) => Err(refused(app, LeaseWrite::new(lease, LateVerb::Publish).with_bytes(bytes), why)),
        Verdict::Unknown => Err(Error::no_run(lease.run)),
    });
    Ok(settled.collect())
}

/// What was published last, and when.
pub async fn read(app: &App, caller: &Caller, run: RunId) -> Result<Option<(Bytes, Millis)>, Error> {
    visible(app, caller, Scope::Read, run).await?;
    let mut published = app.store.published(run).await?;
    payloads::fill(app, published.iter_mut().map(|(value, _)| value).collect()).await?;
    Ok(published)
}
