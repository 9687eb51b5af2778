//! Which runs a form means: those that were chosen, or all that match a filter, and how many of each state.

use baton_core::{BulkAction, Millis, RunId, State as RunState};
use baton_proto::{BulkFilter, CreateBulk, Time};
use baton_server::service::bulk::{self, Created, THESE_MAX};
use baton_server::service::lists::{self, KeyMatch, ListFilter, Listed, Phase, SearchFrom};
use baton_server::{App, Error, Scope};
use jiff::tz::TimeZone;

use super::act::{namespace_of, words};
use super::filter::{Filter, States, kind_of};
use crate::forms::Form;

/// What is to be acted on.
pub enum Chosen {
    /// These runs.
    Runs(Vec<RunId>),
    /// All that match.
    All(Box<BulkFilter>),
}

/// What would be acted on, and how many of them there are of each state.
pub struct Counted {
    pub chosen: Chosen,
    /// Phases and numbers.
    pub counts: Vec<(Phase, u64)>,
    /// The filter in words, where there is one.
    pub filter: Option<String>,
    /// Runs that were chosen and that the verb does nothing with.
    pub left_out: u64,
}

impl Counted {
    /// How many there are in all.
    pub fn sum(&self) -> u64 {
        self.counts.iter().map(|(_, count)| count).sum()
    }
}

/// The filter of the list that the form was sent from, as it was at this moment.
fn filter_of(form: &Form, moment: Millis) -> ListFilter {
    let mut filter = ListFilter { namespace: namespace_of(form), ..ListFilter::default() };
    let typed = Filter::parse(form.get("q").unwrap_or_default());
    typed.fill(&mut filter, moment, &TimeZone::UTC);
    filter.kind = form.get("kind").and_then(kind_of).or(filter.kind);
    if let Some(states) = form.get("state").and_then(States::parse) {
        filter.phases = states.phases().to_vec();
    }
    // As it was read in the reader's zone.
    filter.since = form.get("since").and_then(|since| since.parse().ok()).or(filter.since);
    filter.before = Some(moment);
    filter
}

/// The phases of a filter that a verb acts on.
fn phases_for(verb: BulkAction, phases: &[Phase]) -> Vec<Phase> {
    let acts_on = |phase: &Phase| phase.is_ended() == matches!(verb, BulkAction::Retry);
    match (phases.is_empty(), verb) {
        (true, BulkAction::Retry) => vec![Phase::Failed],
        (true, BulkAction::Cancel) => Phase::ALL.into_iter().filter(acts_on).collect(),
        (false, _) => phases.iter().copied().filter(acts_on).collect(),
    }
}

/// The states of the kernel that these phases are, where they are all of them.
fn whole_states(phases: &[Phase], is_none: impl Fn(Phase) -> bool) -> Option<Vec<RunState>> {
    let made_of: [(RunState, &[Phase]); 7] = [
        (RunState::Pending, &[Phase::Waiting, Phase::Later]),
        (RunState::Assigned, &[Phase::Starting, Phase::Cancelling]),
        (RunState::Running, &[Phase::Running, Phase::Cancelling]),
        (RunState::Sleeping, &[Phase::Sleeping]),
        (RunState::Completed, &[Phase::Completed]),
        (RunState::Failed, &[Phase::Failed]),
        (RunState::Cancelled, &[Phase::Cancelled]),
    ];
    let mut states = Vec::new();
    for (state, all) in made_of {
        if !all.iter().any(|phase| phases.contains(phase)) {
            continue;
        }
        if !all.iter().all(|phase| phases.contains(phase) || is_none(*phase)) {
            return None;
        }
        states.push(state);
    }
    Some(states)
}

/// The filter as bulk operations know it, where they do.
async fn bulk_filter(app: &App, form: &Form, filter: &ListFilter) -> Result<Option<BulkFilter>, Error> {
    let caller = &form.visitor.caller;
    let is_plain = filter.kind.is_none()
        && filter.error.is_none()
        && filter.reason.is_none()
        && filter.why.is_none()
        && filter.queues.len() <= 1
        && filter.types.len() <= 1
        && filter.workers.len() <= 1
        && !filter.types.iter().any(|kind| kind.ends_with('*'))
        && !filter.workers.iter().any(|worker| worker.parse::<baton_core::WorkerId>().is_err())
        && !matches!(filter.key, Some(KeyMatch::Prefix(_)));
    if !is_plain {
        return Ok(None);
    }
    // A workflow's type stands for all of its versions, which bulk operations do not know.
    let lanes = lists::lanes(app, caller, &filter.namespace).await?;
    if filter.types.iter().any(|kind| !lanes.iter().any(|lane| lane.name.kind == *kind)) {
        return Ok(None);
    }
    let mut none = Vec::new();
    for phase in [Phase::Waiting, Phase::Later].into_iter().filter(|phase| !filter.phases.contains(phase)) {
        let others = ListFilter { phases: vec![phase], ..filter.clone() };
        if lists::page(app, caller, &others, SearchFrom::Newest, 1).await?.runs.is_empty() {
            none.push(phase);
        }
    }
    let Some(states) = whole_states(&filter.phases, |phase| none.contains(&phase)) else { return Ok(None) };
    Ok(Some(BulkFilter {
        namespace: Some(filter.namespace.clone()),
        queue: filter.queues.first().cloned(),
        kind: filter.types.first().cloned(),
        state: states.into_iter().map(|state| state.as_str().to_owned()).collect(),
        worker: filter.workers.first().cloned(),
        key: match &filter.key {
            Some(KeyMatch::Exactly(key)) => Some(key.clone()),
            Some(KeyMatch::Prefix(_)) | None => None,
        },
        submitted_after: filter.since.map(Time),
        submitted_before: filter.before.map(Time),
        id_suffix: None,
    }))
}

fn counted(rows: &[Listed]) -> Vec<(Phase, u64)> {
    let of = |phase: Phase| rows.iter().filter(|row| row.phase == phase).count() as u64;
    Phase::ALL.into_iter().map(|phase| (phase, of(phase))).filter(|(_, count)| *count > 0).collect()
}

/// Finds out what is meant, and counts it.
pub async fn count(app: &App, form: &Form, verb: BulkAction) -> Result<Counted, Error> {
    let caller = &form.visitor.caller;
    let namespace = namespace_of(form);
    caller.may(Scope::Submit, &namespace)?;
    if form.get("all").is_none() {
        let mut ids: Vec<RunId> = form.fields.all("id").filter_map(|id| id.parse().ok()).collect();
        ids.sort_unstable();
        ids.dedup();
        if ids.is_empty() {
            return Err(Error::Invalid("nothing is selected; select runs first".into()));
        }
        let found = lists::those(app, caller, &namespace, &ids).await?;
        let acts_on = |row: &&Listed| verb.acts_on(row.run.record.state);
        let runs: Vec<Listed> = found.iter().filter(acts_on).cloned().collect();
        let left_out = (found.len() - runs.len()) as u64;
        let chosen = Chosen::Runs(runs.iter().map(|row| row.run.record.id).collect());
        return Ok(Counted { chosen, counts: counted(&runs), filter: None, left_out });
    }
    // What comes later was not meant.
    let moment = app.time.now().await? + 1;
    let mut filter = filter_of(form, moment);
    filter.phases = phases_for(verb, &filter.phases);
    let text = form.get("q").map(str::to_owned);
    if filter.phases.is_empty() {
        let what = words(verb).1;
        return Err(Error::Invalid(format!("none of them can be {what} in the state that is shown")));
    }
    match bulk_filter(app, form, &filter).await? {
        Some(own) => {
            let mut counts = Vec::new();
            for word in &own.state {
                let Some(state) = RunState::parse(word) else { continue };
                let one = BulkFilter { state: vec![word.clone()], ..own.clone() };
                let dry = CreateBulk { dry_run: true, ..CreateBulk::new(verb.as_str(), one) };
                if let Created::Counted(found) = bulk::create(app, caller, dry, None).await?
                    && found.matched > 0
                {
                    counts.push((phase_of(state), found.matched));
                }
            }
            Ok(Counted { chosen: Chosen::All(Box::new(own)), counts, filter: text, left_out: 0 })
        }
        None => {
            let found = lists::page(app, caller, &filter, SearchFrom::Newest, THESE_MAX).await?;
            if found.has_more || found.looked_to.is_some() {
                return Err(Error::Invalid(format!(
                    "more than {THESE_MAX} runs may match, and a bulk operation knows only state, queue, type, key, worker and \
                     time; narrow the filter, or leave other tokens out"
                )));
            }
            let runs = found.runs.iter().map(|row| row.run.record.id).collect();
            Ok(Counted { chosen: Chosen::Runs(runs), counts: counted(&found.runs), filter: text, left_out: 0 })
        }
    }
}

fn phase_of(state: RunState) -> Phase {
    match state {
        RunState::Pending => Phase::Waiting,
        RunState::Assigned => Phase::Starting,
        RunState::Running => Phase::Running,
        RunState::Sleeping => Phase::Sleeping,
        RunState::Completed => Phase::Completed,
        RunState::Failed => Phase::Failed,
        RunState::Cancelled => Phase::Cancelled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_of_phases_is_one_of_states_where_nothing_else_is_meant() {
        let all = |_| false;
        assert_eq!(whole_states(&[Phase::Waiting], all), None, "what is due later was not meant");
        assert_eq!(whole_states(&[Phase::Waiting], |phase| phase == Phase::Later), Some(vec![RunState::Pending]));
        let held = [Phase::Starting, Phase::Running, Phase::Cancelling];
        assert_eq!(whole_states(&held, all), Some(vec![RunState::Assigned, RunState::Running]));
        assert_eq!(whole_states(&[Phase::Failed], all), Some(vec![RunState::Failed]));
    }

    #[test]
    fn a_verb_acts_on_the_states_it_can() {
        assert_eq!(phases_for(BulkAction::Retry, &[]), [Phase::Failed]);
        assert_eq!(phases_for(BulkAction::Retry, &[Phase::Waiting]), []);
        assert_eq!(phases_for(BulkAction::Retry, &[Phase::Completed]), [Phase::Completed]);
        assert!(phases_for(BulkAction::Cancel, &[]).iter().all(|phase| !phase.is_ended()));
    }
}
