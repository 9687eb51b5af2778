//! Polls that meet runs on their way to the store.

use std::sync::Arc;

use baton_store::{ClaimAnswer, ClaimRequest, StoreError, StoreResult};

use super::line::Line;
use super::waiting::Parked;

/// A waiting poll that goes to the store together with the runs it may get. It is settled or goes back into its line.
#[derive(Debug)]
pub struct Offer {
    line: Arc<Line>,
    parked: Option<Parked>,
    since: u64,
}

impl Offer {
    /// A poll that was taken out of this line when this number was the next.
    pub(super) fn new(line: Arc<Line>, parked: Parked, since: u64) -> Offer {
        Offer { line, parked: Some(parked), since }
    }

    /// The claim to be made on the way, of at most so many runs.
    pub fn request(&self, runs: usize) -> ClaimRequest {
        let slots: Vec<_> = self.parked.iter().map(|parked| parked.slot.clone()).collect();
        let limit = slots.iter().map(|slot| slot.room as usize).sum::<usize>().min(runs);
        ClaimRequest { queue: self.line.queue(), slots, limit, die: self.line.die() }
    }

    /// Hands over what the claim brought.
    pub fn settle(mut self, answer: StoreResult<ClaimAnswer>) {
        self.end(answer);
    }

    fn end(&mut self, answer: StoreResult<ClaimAnswer>) {
        let Some(parked) = self.parked.take() else { return };
        self.line.take_back(parked, self.since, answer);
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        // Whoever gave up may have done so after the store had carried it out.
        self.end(Err(StoreError::Unavailable("given up on the way".into())));
    }
}
