//! Fills the claims of runner pools: takes idle runners, verifies those that have registered, hands over all or none, and gives back when it
//! cannot be done. Every server does; the store decides each step, so any of them may fall at any point.

use baton_core::Millis;
use baton_core::pools::{Cause, ClaimReason, Limits, RunnerState, Verdict};
use baton_store::{CommitAnswer, EndClaimAnswer, Pool, PoolClaim, RunnerAnswer, RunnerEnd, RunnerRef, TakeRules};
use futures_util::future::join_all;

use crate::service::pools::told;
use crate::{App, Error, crash};

/// Looks in one pass, so that a pass ends.
const ROUNDS_MAX: usize = 20;

/// One pass.
pub(super) async fn pass(app: &App) -> Result<String, Error> {
    let (mut filled, mut failed) = (0, 0);
    for round in 0..ROUNDS_MAX {
        let waited_for = app.store.waiting_pools().await?;
        if waited_for.is_empty() {
            break;
        }
        let now = app.store.now().await?;
        let pools = app.pools.all().await?;
        let looks = pools.iter().filter(|pool| waited_for.contains(&pool.number)).map(|pool| fill(app, pool, now));
        let looks = join_all(looks).await;
        let mut has_ended_some = false;
        for did in looks {
            let did = did?;
            filled += did.filled;
            failed += did.failed;
            has_ended_some |= did.ended > 0;
            // What is lacking is created. In later rounds nothing new is known of that.
            if did.missing > 0 && round == 0 {
                app.pools.keeper.ring();
            }
        }
        if !has_ended_some {
            break;
        }
    }
    Ok(format!("{filled} claims filled, {failed} failed"))
}

#[derive(Default)]
struct Did {
    filled: usize,
    failed: usize,
    /// Runners that were found wanting: others have to take their place.
    ended: usize,
    missing: u32,
}

async fn fill(app: &App, pool: &Pool, now: Millis) -> Result<Did, Error> {
    let settings = app.current();
    // While GitHub refuses, machines that are taken would be thrown away one after the other.
    let rules = TakeRules { is_held: app.pools.github.refuses(pool.number).is_some(), ..settings.pool_take_rules() };
    let taken = app.store.take_runners(pool.number, rules).await?;
    if !taken.taken.is_empty() {
        crash::point("claim.taken");
    }
    app.pools.tell(RunnerState::Claimed, taken.taken.iter().map(|taken| taken.runner.runner));
    app.pools.tell(RunnerState::Releasing, taken.yielded.iter().map(|runner| runner.runner));
    let mut did = Did::default();
    let limits = Limits { is_deaf: app.is_deaf_to_agents(), ..settings.pool_limits() };
    if let Some(next) = taken.waiting.iter().filter_map(|claim| claim.deadline).min() {
        app.pools.claims.ring_at(next.saturating_add(1), now);
    }
    for claim in taken.waiting {
        // Whoever gets its first runner after this look is looked at again when that one signals.
        let answer = match taken.holders.contains(&claim.number) {
            true => app.store.commit_claim(claim.number, limits).await?,
            false => CommitAnswer::NotYet { verdicts: Vec::new(), missing: claim.count },
        };
        match answer {
            CommitAnswer::Ready(ready) => {
                crash::point("claim.committed");
                did.filled += 1;
                hand_over(app, &ready).await?;
            }
            CommitAnswer::NotYet { verdicts, missing } => {
                did.missing = did.missing.saturating_add(missing);
                let passed = verdicts.iter().filter(|(_, verdict)| *verdict == Verdict::Passed).count();
                if let Some((reason, detail)) = hopeless(app, pool, &claim, passed, now).await? {
                    did.failed += usize::from(fail(app, &claim, reason, &detail).await?);
                    continue;
                }
                did.ended += discard(app, pool, verdicts).await?;
            }
            // Another server was faster.
            CommitAnswer::Refused(..) | CommitAnswer::Unknown => app.pools.moved(claim.number),
        }
    }
    Ok(did)
}

async fn hand_over(app: &App, claim: &PoolClaim) -> Result<(), Error> {
    app.pools.moved(claim.number);
    told::claim_changed(app, claim).await?;
    let runners = crate::service::pools::claims::runners_of(app, claim.number).await?;
    app.pools.tell(RunnerState::Running, runners.iter().map(|runner| runner.id));
    let (namespace, pool) = app.pools.name(claim.pool).await?;
    let waited_ms = claim.ready_at.unwrap_or(claim.opened_at).saturating_sub(claim.opened_at);
    tracing::info!(namespace, pool, run_id = claim.run_id, count = claim.count, waited_ms, "a claim is filled");
    app.metrics.pools.note_wait(&namespace, &pool, waited_ms);
    let warm = runners.iter().filter(|runner| runner.ordered_at < claim.opened_at).count();
    let (warm, cold) = (warm as u64, (runners.len() - warm) as u64);
    app.metrics.series.pool_claim_filled(&namespace, &pool, warm, cold);
    Ok(())
}

/// Why a claim cannot be filled any more, if it cannot.
async fn hopeless(
    app: &App,
    pool: &Pool,
    claim: &PoolClaim,
    passed: usize,
    now: Millis,
) -> Result<Option<(ClaimReason, String)>, Error> {
    let most = pool.spec.max_size;
    if claim.count > most {
        let detail = format!("the pool may have {most} machines by now, and the claim wants {}", claim.count);
        return Ok(Some((ClaimReason::Impossible, detail)));
    }
    if claim.deadline.is_none_or(|deadline| deadline >= now) {
        return Ok(None);
    }
    let standing = crate::service::pools::claims::standing(app, pool, &claim.wanted).await?;
    let had = format!("{passed} of {} runners were alive and registered when the wait was over", claim.count);
    Ok(Some((ClaimReason::WaitOver, format!("{had}; {standing}"))))
}

async fn fail(app: &App, claim: &PoolClaim, reason: ClaimReason, detail: &str) -> Result<bool, Error> {
    let release_ms = app.current().pool_release();
    let answer = app.store.fail_claim(claim.number, reason, detail, release_ms).await?;
    let EndClaimAnswer::Ended(claim, runners) = answer else { return Ok(false) };
    crash::point("claim.failed");
    told::claim_ended(app, &claim).await?;
    app.pools.tell(RunnerState::Releasing, runners.iter().map(|runner| runner.runner));
    app.pools.moved(claim.number);
    app.pools.keeper.ring();
    Ok(true)
}

/// Ends runners that did not pass. Returns how many.
async fn discard(app: &App, pool: &Pool, verdicts: Vec<(RunnerRef, Verdict)>) -> Result<usize, Error> {
    let failed = verdicts.into_iter().filter_map(|(runner, verdict)| match verdict {
        Verdict::Failed(cause) => Some(RunnerEnd { runner, cause, detail: found(cause).into() }),
        Verdict::Passed | Verdict::Waits | Verdict::NotClaimed => None,
    });
    let failed: Vec<RunnerEnd> = failed.collect();
    if failed.is_empty() {
        return Ok(0);
    }
    let answers = app.store.end_runners(failed.clone()).await?;
    let mut ended = Vec::new();
    for (end, answer) in failed.iter().zip(answers) {
        if matches!(answer, RunnerAnswer::Moved(..)) {
            told::discarded(pool, end.runner.runner, end.cause, &end.detail);
            ended.push(end.runner.runner);
        }
    }
    let count = ended.len();
    app.pools.tell(RunnerState::Terminating, ended);
    app.pools.keeper.ring();
    Ok(count)
}

fn found(cause: Cause) -> &'static str {
    match cause {
        Cause::Silent => "its last heartbeat was too old when it was to be handed over",
        Cause::RegisterTimeout => "it did not register in time",
        _ => "",
    }
}
