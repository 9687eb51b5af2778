//! Which events somebody wants to hear of.

use baton_proto::Event;

use super::Kind;
use crate::Error;

/// Which events somebody wants to hear of. What is left out does not matter.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EventFilter {
    /// In this namespace.
    pub namespace: Option<String>,
    /// Of this queue.
    pub queue: Option<String>,
    /// Of runs of this type.
    pub run_type: Option<String>,
    /// Of this run.
    pub run: Option<String>,
    /// Of this worker.
    pub worker: Option<String>,
    /// Of this pool.
    pub pool: Option<String>,
    /// Bits of kinds; none means all. See [`EventFilter::of_kinds`].
    pub(crate) kinds: u32,
}

impl EventFilter {
    /// Of these kinds: names or subjects, parted by commas.
    pub fn of_kinds(mut self, words: &str) -> Result<EventFilter, Error> {
        for word in words.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let known = Kind::ALL.map(Kind::as_str).join(", ");
            self.kinds |= Kind::named(word).ok_or_else(|| {
                let why = format!("must be one of {known}, or what stands before their dot, not {word:?}");
                Error::field("kind", why)
            })?;
        }
        Ok(self)
    }

    /// Bits of the kinds.
    pub(crate) fn kinds(&self) -> u32 {
        if self.kinds == 0 { Kind::all() } else { self.kinds }
    }

    /// True when it is about this event. Events without a namespace are nobody's, but for those of bulk operations on the runs
    /// of all: whoever names no namespace may hear of them.
    pub(crate) fn matches(&self, event: &Event) -> bool {
        let is = |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        let is_kind = self.kinds == 0 || Kind::named(&event.kind).is_some_and(|bit| bit & self.kinds != 0);
        is_kind
            && (event.namespace.is_some() || event.kind == Kind::BulkChanged.as_str())
            && is(&self.namespace, &event.namespace)
            && is(&self.queue, &event.queue)
            && is(&self.run_type, &event.run_type)
            && is(&self.run, &event.run_id)
            && is(&self.worker, &event.worker_id)
            && is(&self.pool, &event.pool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_proto::Time;

    #[test]
    fn an_event_is_found_by_everything_that_is_said_of_it() {
        let event = Event {
            namespace: Some("a".into()),
            queue: Some("q".into()),
            run_id: Some("r".into()),
            ..Event::new("run.ended", Time(1))
        };
        let of = |words: &str| EventFilter::default().of_kinds(words).unwrap();
        let some = |text: &str| Some(text.to_owned());
        let cases = [
            (EventFilter::default(), true),
            (EventFilter { namespace: some("a"), queue: some("q"), run: some("r"), ..of("run.ended") }, true),
            (of("worker,run"), true),
            (of("run.submitted, run.ended"), true),
            (of("worker"), false),
            (EventFilter { namespace: some("b"), ..EventFilter::default() }, false),
            (EventFilter { queue: some("p"), ..EventFilter::default() }, false),
            (EventFilter { run_type: some("t"), ..EventFilter::default() }, false),
            (EventFilter { worker: some("w"), ..EventFilter::default() }, false),
        ];
        for (filter, expected) in cases {
            assert_eq!(filter.matches(&event), expected, "{filter:?}");
        }
        assert!(!EventFilter::default().matches(&Event::new("run.ended", Time(1))), "nobody's");
        let wrong = EventFilter::default().of_kinds("run.over").unwrap_err().to_string();
        assert!(wrong.starts_with("kind must be one of run.submitted,"), "{wrong}");
    }
}
