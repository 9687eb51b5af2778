//! A verb on runs that somebody has chosen one by one, as a bulk operation does it, but at once and with an answer for each.

use baton_core::{BulkAction, BulkId, RunId, State};
use baton_store::Scope;
use futures_util::future::try_join_all;

use super::act::{self, Errand, Fate};
use crate::auth::Caller;
use crate::service::audit;
use crate::{App, Error};

/// Most runs that are chosen one by one.
pub const THESE_MAX: usize = 500;
/// Runs that are acted on together.
const TOGETHER: usize = 50;

/// What became of a run: nothing to say when the verb was carried out, or why it was not.
pub type Fates = Vec<(RunId, Option<String>)>;

/// Carries a verb out on these runs. Those that the caller may not see are none.
pub async fn these(app: &App, caller: &Caller, action: BulkAction, runs: &[RunId]) -> Result<Fates, Error> {
    caller.has(Scope::Submit)?;
    if runs.len() > THESE_MAX {
        return Err(Error::field("id", format!("may be given {THESE_MAX} times; a filter finds more")));
    }
    let mut seen = Vec::with_capacity(runs.len());
    for (run, facts) in runs.iter().zip(app.store.run_facts(runs).await?) {
        let Some(facts) = facts else { continue };
        let lane = app.lanes.name(facts.lane).await?.ok_or(Error::Internal)?;
        if caller.sees(&lane.namespace) {
            seen.push((*run, lane, facts.state));
        }
    }
    let states: Vec<State> = State::ALL.into_iter().filter(|state| action.acts_on(*state)).collect();
    let unique = RunId::new(app.store.now().await?, 0, app.entropy.bits());
    let errand = Errand { operation: BulkId(unique.0), action, states: &states, caller: caller.clone() };
    let ids: Vec<RunId> = seen.iter().map(|(run, ..)| *run).collect();
    let mut fates: Fates = Vec::with_capacity(runs.len());
    for some in ids.chunks(TOGETHER) {
        let acted = act::on(app, &errand, some).await;
        fates.extend(acted.fates.into_iter().map(|(run, fate)| (run, why_not(action, &fate))));
        if let Some(error) = acted.stopped {
            fates.extend(ids.iter().skip(fates.len()).map(|run| (*run, Some(error.to_string()))).collect::<Vec<_>>());
            break;
        }
    }
    let done = fates.iter().zip(&seen).filter(|((_, why), _)| why.is_none());
    let verb = format!("run.{}", action.as_str());
    let notes = done.map(|((run, _), (_, lane, state))| {
        let (verb, subject) = (verb.clone(), run.to_string());
        async move { audit::act(app, caller, &verb, &subject, state.as_str(), Some(&lane.namespace)).await }
    });
    try_join_all(notes).await?;
    let unknown = runs.iter().filter(|run| !ids.contains(run));
    fates.extend(unknown.map(|run| (*run, Some(Error::no_run(run).to_string()))).collect::<Vec<_>>());
    Ok(fates)
}

fn why_not(action: BulkAction, fate: &Fate) -> Option<String> {
    match (fate, action) {
        (Fate::Done, _) => None,
        (Fate::Skipped(Some(error)) | Fate::Failed(error), _) => Some(error.to_string()),
        (Fate::Skipped(None), BulkAction::Cancel) => Some("it has already ended".into()),
        (Fate::Skipped(None), BulkAction::Retry) => Some("it has not ended yet".into()),
    }
}
