//! What both stores say about builds once they have read their rows.

use baton_core::State;
use uuid::Uuid;

use crate::{BuildCounts, BuildSource, Builder, TokenAnswer};

impl BuildCounts {
    /// What the counting statements call builds submitted since a time, among the codes of states.
    pub(crate) const SINCE: i16 = -1;

    /// Adds builds in a state.
    pub(crate) fn add(&mut self, state: State, builds: u64) {
        let count = match state {
            State::Pending | State::Sleeping => &mut self.pending,
            State::Assigned => &mut self.assigned,
            State::Running => &mut self.building,
            State::Completed => &mut self.completed,
            State::Failed => &mut self.failed,
            State::Cancelled => &mut self.cancelled,
        };
        *count += builds;
    }
}

/// A source, column by column.
#[derive(Default)]
pub(crate) struct SourceColumns<'a> {
    pub source: Option<Uuid>,
    pub certs: Option<Uuid>,
    pub slug: Option<&'a str>,
    pub version: Option<&'a str>,
    pub url: Option<&'a str>,
    pub reference: Option<&'a str>,
    pub image: Option<&'a str>,
}

impl BuildSource {
    pub(crate) fn columns(&self) -> SourceColumns<'_> {
        match self {
            BuildSource::Files { source, certs } => {
                SourceColumns { source: Some(*source), certs: *certs, ..SourceColumns::default() }
            }
            BuildSource::Git { slug, version, url, reference, image } => SourceColumns {
                slug: Some(slug),
                version: Some(version),
                url: Some(url),
                reference: Some(reference),
                image: Some(image),
                ..SourceColumns::default()
            },
        }
    }
}

impl Builder {
    /// The answer to a token, from the builder as it is after it was shown. Both good tokens lead to the newest.
    pub(crate) fn shown(self, rotated: bool) -> TokenAnswer {
        match self.revoked_at {
            Some(_) => TokenAnswer::Replayed,
            None => TokenAnswer::Good { next: rotated.then_some(self.token), builder: self },
        }
    }

    /// Why a token was refused that did not revoke its builder.
    pub(crate) fn refuse(&self, number: i64) -> TokenAnswer {
        match self.revoked_at.is_some() || number > self.token {
            true => TokenAnswer::Dead,
            false => TokenAnswer::Expired,
        }
    }
}
