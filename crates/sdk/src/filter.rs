//! What goes into paths and queries.

use std::fmt::Write;

use baton_core::State;
use baton_proto::Time;

/// Which runs to list. Everything left out does not matter.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RunFilter {
    /// In this namespace.
    pub namespace: Option<String>,
    /// On this queue.
    pub queue: Option<String>,
    /// Of this type.
    pub kind: Option<String>,
    /// In this state.
    pub state: Option<State>,
    /// Held by this worker now, or at their end.
    pub worker: Option<String>,
    /// With this key.
    pub key: Option<String>,
    /// In one of these states, or in `state`.
    pub states: Vec<State>,
    /// Submitted at this moment or later.
    pub submitted_after: Option<Time>,
    /// Submitted before this moment.
    pub submitted_before: Option<Time>,
    /// With an identifier that begins with these 4 to 32 hexadecimal digits.
    pub id_prefix: Option<String>,
    /// With an identifier that ends with these 4 to 12 hexadecimal digits, among the newest 1,000,000 runs.
    pub id_suffix: Option<String>,
    /// At most this many.
    pub limit: Option<usize>,
    /// After the page that ended with this cursor.
    pub cursor: Option<String>,
    /// Also count all that there are.
    pub total: bool,
}

impl RunFilter {
    pub(crate) fn path(&self) -> String {
        let states: Vec<_> = self.state.iter().chain(&self.states).map(|state| state.as_str()).collect();
        let time = |time: Option<Time>| time.map(|time| time.to_string());
        Query::new("/api/v1/runs")
            .add("namespace", self.namespace.as_deref())
            .add("queue", self.queue.as_deref())
            .add("type", self.kind.as_deref())
            .add("state", Some(states.join(",").as_str()).filter(|states| !states.is_empty()))
            .add("worker", self.worker.as_deref())
            .add("key", self.key.as_deref())
            .add("submitted_after", time(self.submitted_after).as_deref())
            .add("submitted_before", time(self.submitted_before).as_deref())
            .add("id_prefix", self.id_prefix.as_deref())
            .add("id_suffix", self.id_suffix.as_deref())
            .page(self.limit, self.cursor.as_deref(), self.total)
            .path
    }
}

/// Which workers to list. Everything left out does not matter.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WorkerFilter {
    /// In this namespace.
    pub namespace: Option<String>,
    /// With this status: `ONLINE`, `DRAINING` or `OFFLINE`.
    pub status: Option<String>,
    /// Serving this queue.
    pub queue: Option<String>,
    /// At most this many.
    pub limit: Option<usize>,
    /// After the page that ended with this cursor.
    pub cursor: Option<String>,
    /// Also count all that there are.
    pub total: bool,
}

impl WorkerFilter {
    pub(crate) fn path(&self) -> String {
        Query::new("/api/v1/workers")
            .add("namespace", self.namespace.as_deref())
            .add("status", self.status.as_deref())
            .add("queue", self.queue.as_deref())
            .page(self.limit, self.cursor.as_deref(), self.total)
            .path
    }
}

/// A path with a query that grows.
pub(crate) struct Query {
    pub(crate) path: String,
    mark: char,
}

impl Query {
    pub(crate) fn new(path: impl Into<String>) -> Query {
        Query { path: path.into(), mark: '?' }
    }

    pub(crate) fn add(mut self, name: &str, value: Option<&str>) -> Query {
        if let Some(value) = value {
            self.path.push(self.mark);
            self.path.push_str(name);
            self.path.push('=');
            self.path.push_str(&encode(value));
            self.mark = '&';
        }
        self
    }

    pub(crate) fn page(self, limit: Option<usize>, cursor: Option<&str>, total: bool) -> Query {
        self.add("limit", limit.map(|limit| limit.to_string()).as_deref())
            .add("cursor", cursor)
            .add("total", total.then_some("true"))
    }
}

/// Writes a value so that it can stand in a path or query: everything but the unreserved characters of RFC 3986 is
/// percent-encoded.
pub(crate) fn encode(value: &str) -> String {
    let mut encoded = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_cannot_leave_their_place() {
        let filter = RunFilter {
            queue: Some("a b&state=failed/é".into()),
            state: Some(State::Pending),
            limit: Some(10),
            ..RunFilter::default()
        };
        assert_eq!(filter.path(), "/api/v1/runs?queue=a%20b%26state%3Dfailed%2F%C3%A9&state=pending&limit=10");
        assert_eq!(WorkerFilter::default().path(), "/api/v1/workers");
        assert_eq!(WorkerFilter { total: true, ..WorkerFilter::default() }.path(), "/api/v1/workers?total=true");
    }
}
