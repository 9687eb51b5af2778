//! What is written to the log about pools, for whoever looks in the morning.

use baton_core::pools::{Cause, ClaimState, RunnerId};
use baton_store::{Pool, PoolClaim};

use crate::{App, Error};

/// A claim has ended against the will of its owner.
pub(crate) async fn claim_ended(app: &App, claim: &PoolClaim) -> Result<(), Error> {
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
