//! What is told about pools: in the log, for those who look in the morning, and to those who listen.

use baton_core::pools::{Cause, ClaimState, RunnerId};
use baton_proto::{Event, Time};
use baton_store::{Pool, PoolClaim};

use crate::events::Kind;
use crate::{App, Error};

/// A claim was opened, is filled, or has ended.
pub(crate) async fn claim_changed(app: &App, claim: &PoolClaim) -> Result<(), Error> {
    if !app.events.are_wanted(Kind::ClaimChanged.bit()) {
        return Ok(());
    }
    let (namespace, pool) = app.pools.name(claim.pool).await?;
    let now = app.time.now().await?;
    app.events.plain(Kind::ClaimChanged, || Event {
        namespace: Some(namespace),
        pool: Some(pool),
        run_id: Some(claim.run_id.clone()),
        state: Some(claim.state.as_str().to_owned()),
        reason: claim.reason.map(|reason| reason.as_str().to_owned()),
        ..Event::new(Kind::ClaimChanged.as_str(), Time(now))
    });
    Ok(())
}

/// A claim has ended against the will of its owner.
pub(crate) async fn claim_ended(app: &App, claim: &PoolClaim) -> Result<(), Error> {
    claim_changed(app, claim).await?;
    let (namespace, pool) = app.pools.name(claim.pool).await?;
    let (run_id, count, detail) = (&claim.run_id, claim.count, &claim.detail);
    let reason = claim.reason.map_or("", |reason| reason.as_str());
    match claim.state {
        ClaimState::Failed => tracing::warn!(namespace, pool, run_id, count, reason, detail, "a claim has failed"),
        ClaimState::Waiting | ClaimState::Ready | ClaimState::Released => {
            tracing::warn!(namespace, pool, run_id, count, reason, detail, "a claim was ended: its machines go back");
        }
    }
    Ok(())
}

/// A machine is not used any more.
pub(crate) fn discarded(pool: &Pool, runner: RunnerId, cause: Cause, detail: &str) {
    let (namespace, pool, cause) = (&pool.namespace, &pool.name, cause.as_str());
    tracing::info!(namespace, pool, %runner, cause, detail, "a machine is discarded");
}
