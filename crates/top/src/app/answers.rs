//! Takes in what the server has said, or that it says nothing.

use baton::ClientError;
use baton_core::Millis;

use super::{App, LOG_LINES_MAX, Link, Mood, Subject, Why};
use crate::ask::{Answer, Ask};
use crate::rows;

impl App {
    /// Takes in what the server has said.
    pub fn take(&mut self, ask: Ask, answer: Result<Answer, ClientError>, now: Millis) {
        match answer {
            Ok(answer) => {
                self.link = Link::Live;
                self.take_answer(ask, answer, now);
                rows::keep_place(self);
            }
            Err(error) => self.take_refusal(&ask, &error, now),
        }
    }

    fn is_open(&self, subject: &Subject) -> bool {
        self.open().is_some_and(|details| details.subject == *subject)
    }

    fn take_answer(&mut self, ask: Ask, answer: Answer, now: Millis) {
        let facts = &mut self.facts;
        match (ask, answer) {
            (_, Answer::Numbers(numbers)) => {
                facts.numbers = Some(numbers);
                facts.no_numbers = None;
            }
            (_, Answer::Queues(queues)) => facts.queues = Some(queues),
            (Ask::Runs(filter), Answer::Runs(page)) => {
                if self.wanted_runs().as_ref() == Some(&filter) {
                    self.facts.next = page.next_cursor;
                    self.facts.runs = Some((filter, page.runs));
                }
            }
            (Ask::Workers(status), Answer::Workers(page)) => {
                facts.workers.insert(status, page.workers);
            }
            (_, Answer::Pools(page)) => facts.pools = Some(page.pools),
            (Ask::WhyLane(lane, _), Answer::Why(why)) => {
                let reason = why.reasons.into_iter().next();
                facts.why.insert(lane, Why { reason, at: now });
            }
            (Ask::Why(id), Answer::Why(why)) => {
                if self.is_open(&Subject::Run(id)) {
                    self.facts.about.explanation = Some(why);
                } else {
                    self.facts.chosen = Some(why);
                }
            }
            (Ask::Types(queue), Answer::Types(page)) => {
                // What is due later need not be served yet.
                let due = page.runs.into_iter().filter(|run| run.due_at.0 <= now);
                facts.types.insert(queue, due.map(|run| run.kind).collect());
            }
            (Ask::Log(id, after), Answer::Log(lines)) => {
                let log = &mut self.facts.about.log;
                // An answer that comes twice adds nothing.
                let last = log.last().map_or(0, |(number, _)| *number);
                if self.details.last().is_some_and(|open| open.subject == Subject::Run(id)) && after == last {
                    log.extend(lines);
                    let over = log.len().saturating_sub(LOG_LINES_MAX);
                    log.drain(..over);
                }
            }
            (ask, answer) => {
                if ask.subject().is_some_and(|subject| self.is_open(&subject)) {
                    self.take_about(answer);
                }
            }
        }
    }

    fn take_about(&mut self, answer: Answer) {
        let about = &mut self.facts.about;
        match answer {
            Answer::Run(run) => about.run = Some(*run),
            Answer::History(history) => about.history = history.events,
            Answer::Steps(steps) => about.steps = steps,
            Answer::Worker(worker) => about.worker = Some(*worker),
            Answer::HeldBy(page) => about.held = page.runs,
            Answer::Pool(pool) => about.pool = Some(*pool),
            Answer::Claims(page) => about.claims = page.claims,
            Answer::Machines(page) => about.machines = page.runners,
            Answer::Numbers(_)
            | Answer::Queues(_)
            | Answer::Runs(_)
            | Answer::Workers(_)
            | Answer::Pools(_)
            | Answer::Why(_)
            | Answer::Types(_)
            | Answer::Log(_) => {}
        }
    }

    fn take_refusal(&mut self, ask: &Ask, error: &ClientError, now: Millis) {
        let is_open = ask.subject().is_some_and(|subject| self.is_open(&subject));
        let status = match error {
            ClientError::Refused { status, .. } => Some(*status),
            ClientError::Unreachable(_)
            | ClientError::Untrusted(_)
            | ClientError::Decode(_)
            | ClientError::Invalid(_) => None,
        };
        match (ask, status) {
            // It is no workflow, or the server keeps gRPC to itself: there is nothing to show, and no reason to complain.
            (Ask::Steps(_), _) => self.facts.about.has_no_steps |= is_open,
            (Ask::Log(..), Some(404)) if is_open => {
                self.facts.about.no_log = Some("This run has no log: only builds have one.".into());
            }
            (Ask::Numbers, Some(404)) => {
                self.facts.no_numbers = Some("this server is too old to know rates".into());
            }
            (Ask::Why(_) | Ask::WhyLane(..) | Ask::Types(_), Some(404)) => {}
            (_, Some(404)) if is_open => self.facts.about.gone = Some(error.to_string()),
            (_, Some(401)) | (_, Some(403)) if error.code() != Some("forbidden") => {
                self.link = Link::Refused(error.to_string());
            }
            (Ask::Runs(_), Some(400..=422)) => self.say(Mood::Bad, error.to_string(), now),
            (Ask::Numbers, _) => self.facts.no_numbers = Some(error.to_string()),
            _ => self.say(Mood::Bad, error.to_string(), now),
        }
    }

    /// Nobody answers, and the next try comes after `pause`.
    pub fn lost(&mut self, error: &ClientError, now: Millis, pause: Millis) {
        let since = match &self.link {
            Link::Lost { since, .. } => *since,
            Link::Live | Link::Refused(_) => now,
        };
        self.link = Link::Lost { since, next: now + pause, why: error.to_string() };
    }
}

impl Ask {
    /// What an answer tells about, when it is about one thing.
    pub fn subject(&self) -> Option<Subject> {
        match self {
            Ask::Run(id) | Ask::History(id) | Ask::Steps(id) | Ask::Log(id, _) | Ask::Why(id) => {
                Some(Subject::Run(id.clone()))
            }
            Ask::Worker(id) | Ask::HeldBy(id) => Some(Subject::Worker(id.clone())),
            Ask::Pool(pool) | Ask::Claims(pool) | Ask::Machines(pool) => Some(Subject::Pool(pool.clone())),
            Ask::Types(queue) => Some(Subject::Queue(queue.clone())),
            Ask::Numbers | Ask::Queues | Ask::Runs(_) | Ask::Workers(_) | Ask::Pools | Ask::WhyLane(..) => None,
        }
    }
}
