//! What the agent of a runner says and hears.

use std::net::IpAddr;
use std::time::Duration;

use baton_core::pools::{OrderId, Refused, RunnerId, RunnerState, Signal};
use baton_core::token::Hash;
use baton_core::{Epoch, Millis, token};
use baton_proto::{
    JoinRunner, JoinedRunner, POOL_WAIT_MS_MAX, RunnerAction, RunnerOrder, SignalRunner, SignalledRunner, Time,
};
use baton_store::{JoinAnswer, PoolRunner, RunnerNews, RunnerRef, RunnerSignal, SignalAnswer};
use tokio::time::Instant;

use super::told;
use crate::service::{audit, check_name, message};
use crate::{App, Error, crash};

/// How long an agent that joins waits for its provider's answer, before it is told to come again.
const JOIN_WAIT: Duration = Duration::from_secs(2);
/// How often it is looked whether another server has had that answer.
const JOIN_LOOK: Duration = Duration::from_millis(500);

/// The runner whose agent shows this token.
pub async fn runner_of(app: &App, shown: Option<&str>, from: Option<IpAddr>) -> Result<RunnerId, Error> {
    let Some(shown) = shown else {
        return Err(Error::NotShown("send the runner's token (joining gave it) as Authorization: Bearer".into()));
    };
    if let Some(runner) = app.pools.runner_of(&token::hash(shown)).await? {
        return Ok(runner);
    }
    app.metrics.credential_refusals.inc();
    Err(app.keys.refused(from, "runner token", "the token of a runner is not known").await)
}

/// What a join token says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JoinToken {
    /// The order whose machines were started with it.
    pub order: OrderId,
    /// The generation of the secret that it was made with.
    pub generation: u32,
}

/// The order whose join token this is.
pub async fn order_of(app: &App, shown: Option<&str>, from: Option<IpAddr>) -> Result<JoinToken, Error> {
    let Some(shown) = shown else {
        return Err(Error::NotShown("send the join token of the machine as Authorization: Bearer".into()));
    };
    let ring = app.secrets.ring_for(shown).await?;
    if let Some(order) = ring.open_token(shown, |key| token::open_join(key, shown)) {
        return Ok(JoinToken { order, generation: token::generation_of(shown) });
    }
    app.metrics.credential_refusals.inc();
    Err(app.keys.refused(from, "join token", "the join token is none of ours").await)
}

/// Binds an agent to the runner of its machine.
pub async fn join(app: &App, shown: JoinToken, wanted: JoinRunner) -> Result<JoinedRunner, Error> {
    check_name("machine_id", &wanted.machine_id)?;
    let nonce = nonce(&wanted.nonce)?;
    let JoinToken { order, generation } = shown;
    // Who joins again shows the same join token, and gets the same one for it, whatever has been rotated meanwhile.
    let ring = app.secrets.ring();
    let key = &ring.get(generation).ok_or(Error::Unavailable)?.tokens;
    let token = token::runner(key, order, &wanted.machine_id, nonce);
    match join_soon(app, order, &wanted.machine_id, &token::hash(&token)).await? {
        JoinAnswer::Joined(runner) => {
            crash::point("runner.joined");
            let (namespace, pool) = app.pools.name(runner.pool).await?;
            let settings = app.current();
            Ok(JoinedRunner {
                runner_id: runner.id.to_string(),
                token,
                pool,
                namespace,
                heartbeat_ms: settings.pool_heartbeat_ms,
                abandon_ms: settings.pool_abandon_ms,
                order: order_for(&standing(&runner), app.time.now().await?),
            })
        }
        JoinAnswer::Taken => {
            let detail = "another agent has joined for this machine before";
            audit::write(app, "agent", "runner.join_refused", &wanted.machine_id, detail, None).await?;
            Err(Error::Forbidden(format!("{detail}; each machine has one agent, which keeps its nonce")))
        }
        JoinAnswer::NotYet => {
            let why = format!("the provider has not said yet that it made the machine {}", wanted.machine_id);
            Err(Error::NotYet(why))
        }
        JoinAnswer::Unknown => Err(Error::NotFound { what: "runner for the machine", id: wanted.machine_id }),
    }
}

/// An agent may be faster than the answer of its provider, by a moment mostly.
async fn join_soon(app: &App, order: OrderId, machine_id: &str, token: &Hash) -> Result<JoinAnswer, Error> {
    let until = Instant::now() + JOIN_WAIT;
    loop {
        // Watch before looking: machines that are recorded between the look and the watch would wake nobody.
        let recorded = app.pools.recorded.notified();
        tokio::pin!(recorded);
        recorded.as_mut().enable();
        let answer = app.store.join_runner(order, machine_id, *token).await?;
        if answer != JoinAnswer::NotYet || Instant::now() >= until || app.stopping.is_cancelled() {
            return Ok(answer);
        }
        tokio::select! {
            // Another server may have recorded it.
            _ = tokio::time::timeout(JOIN_LOOK, recorded) => {}
            () = app.stopping.cancelled() => {}
        }
    }
}

fn nonce(text: &str) -> Result<[u8; 16], Error> {
    let is_hexadecimal = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let bits = u128::from_str_radix(text, 16).ok().filter(|_| is_hexadecimal);
    bits.map(u128::to_be_bytes).ok_or_else(|| Error::field("nonce", "must be 32 hexadecimal digits"))
}

/// Refuses whoever speaks for a runner that is not theirs.
pub fn is_own(own: RunnerId, asked: &str) -> Result<(), Error> {
    match asked.parse::<RunnerId>().is_ok_and(|asked| asked == own) {
        true => Ok(()),
        false => Err(Error::Forbidden("the token belongs to another runner".into())),
    }
}

/// Notes a sign of life, and says what to do.
pub async fn heartbeat(app: &App, runner: RunnerId) -> Result<RunnerOrder, Error> {
    let news = app.pools.beats.call_one(runner).await?;
    Ok(order_for(&news.unwrap_or_else(gone), app.time.now().await?))
}

/// What to do, once that is something else than the agent knows, or the wait is over.
pub async fn next(app: &App, runner: RunnerId, after: Option<&str>, wait_ms: u64) -> Result<RunnerOrder, Error> {
    let until = Instant::now() + Duration::from_millis(wait_ms.min(POOL_WAIT_MS_MAX));
    loop {
        // Watch before looking: news between the look and the watch would wake nobody.
        let watch = app.pools.runner_news.watch(runner);
        let news = watch.notified();
        tokio::pin!(news);
        news.as_mut().enable();
        let order = look(app, runner).await?;
        let is_known = after == Some(order.serial.as_str());
        if !is_known || Instant::now() >= until || app.stopping.is_cancelled() {
            return Ok(order);
        }
        tokio::select! {
            _ = tokio::time::timeout_at(until, news) => {}
            () = app.stopping.cancelled() => {}
        }
    }
}

async fn look(app: &App, runner: RunnerId) -> Result<RunnerOrder, Error> {
    let found = app.store.runner(runner).await?;
    Ok(order_for(&found.as_ref().map_or_else(gone, standing), app.time.now().await?))
}

/// Notes a signal. One that changes nothing is no error: the agent is told what to do instead.
pub async fn signal(app: &App, runner: RunnerId, said: SignalRunner) -> Result<SignalledRunner, Error> {
    if said.signal.is_about_run() != said.run_id.is_some() {
        let why = "is needed with every signal but UD_OK, and not with that";
        return Err(Error::field("run_id", why));
    }
    if let Some(run_id) = &said.run_id {
        super::claims::check_run_id(run_id)?;
    }
    let signal = RunnerSignal {
        runner: RunnerRef { runner, epoch: Epoch::new(said.epoch) },
        signal: said.signal,
        run_id: said.run_id.clone(),
        detail: message(&said.detail),
        was_unheard: app.is_deaf_to_agents(),
    };
    let (counts, why, order) = match app.pools.signals.call_one(signal).await? {
        SignalAnswer::Noted(news) => {
            crash::point("signal.noted");
            // Its claim may be filled now, or has to look for another runner; and a machine may have to end.
            app.pools.claims.ring();
            if !matches!(said.signal, Signal::Registered) {
                app.pools.keeper.ring();
            }
            if matches!(said.signal, Signal::Registered) {
                // It stays claimed, so that is no move; but its agent may have to do something else.
                app.pools.tell_agents([runner]);
            } else {
                app.pools.tell(news.state, [runner]);
            }
            if news.state == RunnerState::Terminating {
                tell_discarded(app, runner).await?;
            }
            (true, None, order_for(&news, app.time.now().await?))
        }
        SignalAnswer::Refused(Refused::AlreadyDone) => (true, None, look(app, runner).await?),
        SignalAnswer::Refused(refused) => (false, Some(refused.to_string()), look(app, runner).await?),
        SignalAnswer::OtherRun(own) => {
            let said_run = said.run_id.as_deref().unwrap_or_default();
            let own = own.as_deref().unwrap_or("none");
            let detail = format!("{} for the run {said_run}, and the runner is for {own}", said.signal.as_str());
            let found = app.store.runner(runner).await?;
            let namespace = match found {
                Some(found) => Some(app.pools.name(found.pool).await?.0),
                None => None,
            };
            audit::write(app, "agent", "runner.signal_ignored", &runner.to_string(), &detail, namespace.as_deref())
                .await?;
            (false, Some("it is about another run".into()), look(app, runner).await?)
        }
        SignalAnswer::Unknown => (false, Some("the runner is gone".into()), look(app, runner).await?),
    };
    Ok(SignalledRunner { counts, why, order })
}

/// A hook has failed, and the log says so.
async fn tell_discarded(app: &App, runner: RunnerId) -> Result<(), Error> {
    let Some(found) = app.store.runner(runner).await? else { return Ok(()) };
    let (namespace, pool) = app.pools.name(found.pool).await?;
    if let (Some(cause), Some(pool)) = (found.rules.cause, app.store.pool(&namespace, &pool).await?) {
        told::discarded(&pool, runner, cause, &found.detail);
    }
    Ok(())
}

fn standing(runner: &PoolRunner) -> RunnerNews {
    let rules = &runner.rules;
    let is_for_run = matches!(rules.state, RunnerState::Claimed | RunnerState::Running | RunnerState::Releasing);
    RunnerNews {
        state: rules.state,
        epoch: rules.epoch,
        run_id: runner.run_id.clone().filter(|_| is_for_run),
        deadline: rules.deadline,
    }
}

/// How a runner stands that nobody knows any more.
fn gone() -> RunnerNews {
    RunnerNews { state: RunnerState::Gone, epoch: Epoch::new(0), run_id: None, deadline: None }
}

/// What an agent is to do whose runner stands so.
fn order_for(news: &RunnerNews, now: Millis) -> RunnerOrder {
    let action = match news.state {
        RunnerState::Creating => RunnerAction::Start,
        RunnerState::Idle => RunnerAction::Idle,
        // Whoever has registered has no deadline of its own until it is handed over.
        RunnerState::Claimed if news.deadline.is_some() => RunnerAction::Register,
        RunnerState::Claimed | RunnerState::Running => RunnerAction::Keep,
        RunnerState::Releasing => RunnerAction::Deregister,
        RunnerState::Terminating | RunnerState::Gone => RunnerAction::End,
    };
    let has_deadline = u8::from(news.deadline.is_some());
    RunnerOrder {
        serial: format!("{}.{}.{has_deadline}", news.state.as_str(), news.epoch.number()),
        action,
        epoch: news.epoch.number(),
        run_id: news.run_id.clone(),
        deadline: news.deadline.map(Time),
        remaining_ms: news.deadline.map(|deadline| u64::try_from(deadline.saturating_sub(now)).unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(state: RunnerState, deadline: Option<Millis>) -> RunnerOrder {
        order_for(&RunnerNews { state, epoch: Epoch::new(3), run_id: Some("r".into()), deadline }, 1_000)
    }

    #[test]
    fn every_state_has_something_to_do() {
        let expected = [
            (RunnerState::Creating, RunnerAction::Start),
            (RunnerState::Idle, RunnerAction::Idle),
            (RunnerState::Claimed, RunnerAction::Register),
            (RunnerState::Running, RunnerAction::Keep),
            (RunnerState::Releasing, RunnerAction::Deregister),
            (RunnerState::Terminating, RunnerAction::End),
            (RunnerState::Gone, RunnerAction::End),
        ];
        for (state, action) in expected {
            assert_eq!(order(state, Some(1_500)).action, action, "{state:?}");
        }
        assert_eq!(order(RunnerState::Claimed, None).action, RunnerAction::Keep, "it has registered");
    }

    #[test]
    fn another_thing_to_do_has_another_serial() {
        let (register, registered) = (order(RunnerState::Claimed, Some(2_000)), order(RunnerState::Claimed, None));
        let running = order(RunnerState::Running, Some(9_000));
        assert!(register.serial != registered.serial && registered.serial != running.serial);
        assert_eq!(register.remaining_ms, Some(1_000));
        assert_eq!(order(RunnerState::Running, Some(1)).remaining_ms, Some(0), "it is over");
    }

    #[test]
    fn a_nonce_has_32_digits() {
        assert_eq!(nonce("000102030405060708090A0b0c0d0e0f").unwrap()[15], 0x0f);
        for wrong in ["", "00", "+00102030405060708090a0b0c0d0e0f", &"g".repeat(32), &"0".repeat(33)] {
            assert!(nonce(wrong).is_err(), "{wrong}");
        }
    }
}
