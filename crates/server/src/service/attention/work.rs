//! What is wrong with work: types that nobody serves, queues that stand still, schedules that are late, webhooks that fail.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use baton_core::Millis;
use baton_proto::{Finding, ScheduleView, Time, WebhookView};
use baton_store::{Depth, LaneDepth, LaneId, LaneName, Page, Queue, QueueId};

use super::{FAIL, WARN, escape, finding, waiting};
use crate::auth::Caller;
use crate::service::coverage::{Alive, alive};
use crate::service::{schedules as all_schedules, webhooks as all_webhooks};
use crate::{App, Error};

/// Lanes without workers that are looked at for work.
const LANES_MAX: usize = 2_000;
/// Queues whose depth is looked at.
const QUEUES_MAX: usize = 1_000;
/// Schedules and webhooks that are looked at.
const LISTED_MAX: usize = 200;
/// Counting stops here.
const DEPTH_CAP: u64 = 10_000;
/// Of queues only that something waits, and since when, is of interest first.
const QUEUE_CAP: u64 = 1_000;
/// A worker may be on its way: what has waited for less is not told.
const UNSERVED_FOR: Millis = 10_000;
/// A queue whose workers are all busy is told of when its oldest run has waited for so long.
const STUCK_FOR: Millis = 10 * 60 * 1_000;
/// A fire that is later than this is told of.
const LATE_AFTER: Millis = 60_000;

/// Queues with work that is not done.
pub(super) async fn queues(app: &App, namespace: Option<&str>, now: Millis) -> Result<Vec<Finding>, Error> {
    let alive = alive(app, namespace).await?;
    let mut lanes = BTreeMap::<LaneId, Arc<LaneName>>::new();
    for lane in app.lanes.find(namespace, None, None).await? {
        let name = app.lanes.name(lane).await?;
        lanes.extend(name.filter(|name| !alive.is_cut && alive.serving(name) == 0).map(|name| (lane, name)));
    }
    let unserved: Vec<LaneId> = lanes.keys().copied().take(LANES_MAX).collect();
    let unserved = app.store.lane_depths(&unserved, DEPTH_CAP).await?;
    let queues = app.store.queues(namespace).await?;
    let ids: Vec<QueueId> = queues.iter().take(QUEUES_MAX).map(|queue| queue.id).collect();
    let depths: HashMap<QueueId, Depth> =
        app.store.depths(&ids, QUEUE_CAP).await?.into_iter().map(|depth| (depth.queue, depth)).collect();
    let mut found = Vec::new();
    for queue in &queues {
        let depth = depths.get(&queue.id).copied().unwrap_or_default();
        let is_of_it = |name: &LaneName| name.namespace == queue.namespace && name.queue == queue.name;
        let lacking: Vec<(&str, LaneDepth)> = unserved
            .iter()
            .filter(|depth| depth.ready > 0)
            .filter_map(|depth| Some((lanes.get(&depth.lane)?, *depth)))
            .filter(|(name, _)| is_of_it(name))
            .map(|(name, depth)| (name.kind.as_str(), depth))
            .collect();
        let seen = Seen { queue, depth, lacking, places: alive.places(queue) };
        let is_disabled = app.namespaces.is_disabled(&queue.namespace);
        let Some(mut told) = judged(&seen, is_disabled, now) else { continue };
        if told.code == "type_unserved" {
            told.since = since(app, &seen, told.since).await?;
        }
        told.subject = format!("Queue {}", queue.name);
        told.namespace = Some(queue.namespace.clone());
        told.link = Some(format!("/queues/{}", escape(&queue.name)));
        found.push(told);
    }
    Ok(found)
}

/// What is known of a queue.
struct Seen<'a> {
    queue: &'a Queue,
    depth: Depth,
    /// Types with work that nobody serves.
    lacking: Vec<(&'a str, LaneDepth)>,
    /// Runs that its workers can hold, and those that they hold.
    places: (u64, u64),
}

/// What is wrong with a queue, if anything is.
fn judged(seen: &Seen<'_>, is_disabled: bool, now: Millis) -> Option<Finding> {
    let oldest = seen.depth.oldest_ms.unwrap_or(0);
    let waits = waiting(seen.depth.ready, QUEUE_CAP);
    let of = |severity, code, message: String, lasts: Millis| Finding {
        since: Some(Time(now - lasts)),
        ..finding(severity, code, "", message)
    };
    let has_work = seen.depth.ready > 0;
    if is_disabled {
        return has_work
            .then(|| of(WARN, "namespace_disabled", format!("{waits}, and the namespace is disabled"), oldest));
    }
    if let Some(until) = seen.queue.paused_until.filter(|until| *until > now) {
        let until = match until {
            Millis::MAX => "until somebody resumes it".to_owned(),
            until => format!("until {}", minute(until)),
        };
        return has_work.then(|| of(WARN, "queue_paused", format!("{waits}, and it is paused {until}"), oldest));
    }
    let longest = seen.lacking.iter().filter_map(|(_, depth)| depth.oldest_ms).max().unwrap_or(0);
    if longest >= UNSERVED_FOR {
        let sum = seen.lacking.iter().map(|(_, depth)| depth.ready).sum();
        let types = match seen.lacking.as_slice() {
            [(one, _)] => format!("the type {one}"),
            [(first, _), rest @ ..] => format!("the type {first} and {} more", rest.len()),
            [] => return None,
        };
        return Some(of(
            FAIL,
            "type_unserved",
            format!("{}, and no worker serves {types}", waiting(sum, DEPTH_CAP)),
            longest,
        ));
    }
    let (most, held) = seen.places;
    if has_work && oldest >= STUCK_FOR && most > 0 && held >= most {
        let message = format!("{waits} although all its {most} places are taken: it needs more workers");
        return Some(of(WARN, "queue_stuck", message, oldest));
    }
    None
}

/// A moment as people read it, without seconds.
fn minute(at: Millis) -> String {
    let text = Time(at).to_string();
    match (text.get(..10), text.get(11..16)) {
        (Some(day), Some(time)) => format!("{day} {time} UTC"),
        _ => text,
    }
}

/// A type has been without a worker only since its last one went.
async fn since(app: &App, seen: &Seen<'_>, since: Option<Time>) -> Result<Option<Time>, Error> {
    let types: Vec<&str> = seen.lacking.iter().map(|(kind, _)| *kind).collect();
    let last = Alive::last_seen(app, &seen.queue.namespace, &seen.queue.name, &types).await?;
    Ok(since.map(|since| last.map_or(since, |last| since.max(Time(last)))))
}

/// Schedules that are late, or that stand still.
pub(super) async fn schedules(
    app: &App,
    caller: &Caller,
    namespace: Option<&str>,
    now: Millis,
) -> Result<Vec<Finding>, Error> {
    let page = Page { after: None, limit: LISTED_MAX };
    let (all, _) = all_schedules::read::list(app, caller, namespace, page, false).await?;
    Ok(all.into_iter().filter_map(|schedule| schedule_judged(&schedule, now)).collect())
}

fn schedule_judged(schedule: &ScheduleView, now: Millis) -> Option<Finding> {
    let mut told = if schedule.paused {
        // One that somebody has paused on purpose says why, and is nobody's trouble.
        let note = schedule.note.trim();
        let is_failure = note.to_lowercase().contains("fail");
        is_failure.then(|| finding(WARN, "schedule_paused", "", format!("it is paused: {note}")))?
    } else if let Some(waiting) = schedule.waiting_fire.filter(|at| now - at.0 > LATE_AFTER) {
        let message = "its fire waits, because the run of the one before has not ended";
        Finding { since: Some(waiting), ..finding(WARN, "schedule_late", "", message) }
    } else {
        let late = schedule.next_fires.first().filter(|at| now - at.0 > LATE_AFTER)?;
        Finding { since: Some(*late), ..finding(WARN, "schedule_late", "", "it should have fired, and has not") }
    };
    told.subject = format!("Schedule {}", schedule.id);
    told.namespace = Some(schedule.namespace.clone());
    told.link = Some(format!("/schedules/{}", escape(&schedule.id)));
    Some(told)
}

/// Webhooks that do not arrive.
pub(super) async fn webhooks(app: &App, caller: &Caller, namespace: Option<&str>) -> Result<Vec<Finding>, Error> {
    let page = Page { after: None, limit: LISTED_MAX };
    let all = all_webhooks::list(app, caller, namespace, page).await?;
    Ok(all.into_iter().filter_map(|webhook| webhook_judged(&webhook)).collect())
}

fn webhook_judged(webhook: &WebhookView) -> Option<Finding> {
    let mut told = if let Some(since) = webhook.failing_since {
        let message = format!("its target has not answered well; {} wait to be told", webhook.waiting);
        Finding { since: Some(since), ..finding(WARN, "webhook_failing", "", message) }
    } else if let Some(why) = webhook.why.as_ref().filter(|_| !webhook.state.eq_ignore_ascii_case("active")) {
        finding(WARN, "webhook_paused", "", format!("it is {}: {why}", webhook.state.to_lowercase()))
    } else {
        return None;
    };
    told.subject = format!("Webhook {}", webhook.name);
    told.namespace.clone_from(&webhook.namespace);
    told.link = Some(format!("/webhooks/{}", webhook.id));
    Some(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = 1_700_000_000_000;

    fn queue(paused_until: Option<Millis>) -> Queue {
        Queue {
            id: 1,
            namespace: "default".into(),
            name: "mail".into(),
            paused_until,
            backlog_max: None,
            rate_per_second: None,
            key_limit: None,
        }
    }

    fn code(queue: &Queue, ready: u64, oldest: Millis, lacking: &[&'static str], places: (u64, u64)) -> Option<String> {
        let lane = LaneDepth { lane: 1, ready: 412, oldest_ms: Some(oldest) };
        let depth = Depth { queue: 1, ready, oldest_ms: Some(oldest), ..Depth::default() };
        let lacking = lacking.iter().map(|kind| (*kind, lane)).collect();
        judged(&Seen { queue, depth, lacking, places }, false, NOW).map(|told| told.code)
    }

    #[test]
    fn a_queue_is_told_of_when_somebody_has_to_act() {
        let open = queue(None);
        let minute = 60_000;
        assert_eq!(code(&open, 412, minute, &["digest"], (4, 0)).as_deref(), Some("type_unserved"));
        assert_eq!(code(&open, 412, 5_000, &["digest"], (4, 0)), None, "a worker may be on its way");
        assert_eq!(code(&open, 412, minute, &[], (4, 4)), None, "busy is not stuck");
        assert_eq!(code(&open, 412, 20 * minute, &[], (4, 4)).as_deref(), Some("queue_stuck"));
        assert_eq!(code(&open, 412, 20 * minute, &[], (4, 3)), None, "it has room");
        assert_eq!(code(&queue(Some(Millis::MAX)), 3, 0, &[], (4, 0)).as_deref(), Some("queue_paused"));
        assert_eq!(code(&queue(Some(Millis::MAX)), 0, 0, &[], (4, 0)), None, "nothing waits for it");
        assert_eq!(code(&queue(Some(NOW - 1)), 3, 0, &[], (4, 0)), None, "the pause is over");
    }

    #[test]
    fn moments_are_written_for_people() {
        assert_eq!(minute(NOW), "2023-11-14 22:13 UTC");
        assert_eq!(minute(Millis::MAX), "never");
    }

    #[test]
    fn the_sentence_names_the_type() {
        let open = queue(None);
        let lane = LaneDepth { lane: 1, ready: 412, oldest_ms: Some(60_000) };
        let seen = |lacking| Seen { queue: &open, depth: Depth::default(), lacking, places: (0, 0) };
        let one = judged(&seen(vec![("digest", lane)]), false, NOW).unwrap();
        assert_eq!(one.message, "412 runs wait, and no worker serves the type digest");
        assert_eq!(one.since, Some(Time(NOW - 60_000)));
        let two = judged(&seen(vec![("digest", lane), ("bounce", lane)]), false, NOW).unwrap();
        assert_eq!(two.message, "824 runs wait, and no worker serves the type digest and 1 more");
    }
}
