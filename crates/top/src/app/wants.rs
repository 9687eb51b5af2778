//! What to ask the server for.

use baton::State;
use baton_core::Millis;

use super::{App, Pane, Subject, View};
use crate::ask::Ask;
use crate::rows;

impl App {
    /// What to ask the server for, most important first.
    pub fn wants(&self, now: Millis) -> Vec<Ask> {
        let mut asks = Vec::new();
        match self.open() {
            Some(details) => self.wants_of(&details.subject, details.pane, &mut asks),
            None => self.wants_of_list(now, &mut asks),
        }
        asks.push(Ask::Numbers);
        // Totals and names: everywhere.
        for ask in [Ask::Queues, Ask::Workers("ONLINE"), Ask::Workers("DRAINING")] {
            if !asks.contains(&ask) {
                asks.push(ask);
            }
        }
        asks
    }

    fn wants_of_list(&self, now: Millis, asks: &mut Vec<Ask>) {
        match self.view {
            View::Queues => {
                asks.push(Ask::Queues);
                asks.push(Ask::Workers("ONLINE"));
                asks.extend(rows::queues_to_sample(self).into_iter().map(Ask::Types));
            }
            View::Runs => {
                asks.extend(self.wanted_runs().map(Ask::Runs));
                if let Some(Subject::Run(id)) = self.subject()
                    && self.run(&id).is_some_and(|run| run.state == State::Pending)
                {
                    asks.push(Ask::Why(id));
                }
                asks.extend(rows::lanes_to_explain(self, now).into_iter().map(|(lane, id)| Ask::WhyLane(lane, id)));
            }
            View::Workers => {
                asks.extend(["ONLINE", "DRAINING", "OFFLINE"].map(Ask::Workers));
            }
            View::Pools => asks.push(Ask::Pools),
        }
    }

    fn wants_of(&self, subject: &Subject, pane: Pane, asks: &mut Vec<Ask>) {
        match subject {
            Subject::Run(id) if pane == Pane::Log => {
                asks.push(Ask::Run(id.clone()));
                if self.facts.about.no_log.is_none() {
                    let last = self.facts.about.log.last().map_or(0, |(number, _)| *number);
                    asks.push(Ask::Log(id.clone(), last));
                }
            }
            Subject::Run(id) => {
                asks.extend([Ask::Run(id.clone()), Ask::Why(id.clone()), Ask::History(id.clone())]);
                if !self.facts.about.has_no_steps {
                    asks.push(Ask::Steps(id.clone()));
                }
            }
            Subject::Worker(id) => asks.extend([Ask::Worker(id.clone()), Ask::HeldBy(id.clone())]),
            Subject::Queue(queue) => asks.extend([Ask::Queues, Ask::Types(queue.clone())]),
            Subject::Pool(pool) => {
                asks.extend([Ask::Pool(pool.clone()), Ask::Claims(pool.clone()), Ask::Machines(pool.clone())]);
            }
        }
    }
}
