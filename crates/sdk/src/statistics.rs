//! Numbers as series.

use baton_proto::{Attention, Statistics, Time};

use crate::client::Call;
use crate::filter::Query;
use crate::{Client, ClientError};

/// Which statistics to read. What is left out is the server's choice: the last hour, all series, sums only.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StatisticsFilter {
    /// A stretch that ends now: `hour` (by 10 seconds), `day` (by a minute) or `month` (by an hour).
    pub range: Option<String>,
    /// From this moment on, instead of a range.
    pub from: Option<Time>,
    /// Until this moment.
    pub until: Option<Time>,
    /// Of this namespace.
    pub namespace: Option<String>,
    /// Of this queue.
    pub queue: Option<String>,
    /// Of this runner pool.
    pub pool: Option<String>,
    /// These series: `ready`, or all of a subject: `wait`. All of them if there are none.
    pub series: Vec<String>,
    /// Lists each `queue`, or each `pool`, besides the sums.
    pub by: Option<String>,
    /// How many of them at most.
    pub limit: Option<usize>,
    /// How many steps at most: they are made longer until it fits.
    pub points: Option<usize>,
}

impl StatisticsFilter {
    fn path(&self) -> String {
        let series = (!self.series.is_empty()).then(|| self.series.join(","));
        Query::new("/api/v1/statistics")
            .add("range", self.range.as_deref())
            .add("from", self.from.map(|from| from.to_string()).as_deref())
            .add("until", self.until.map(|until| until.to_string()).as_deref())
            .add("namespace", self.namespace.as_deref())
            .add("queue", self.queue.as_deref())
            .add("pool", self.pool.as_deref())
            .add("series", series.as_deref())
            .add("by", self.by.as_deref())
            .add("limit", self.limit.map(|limit| limit.to_string()).as_deref())
            .add("points", self.points.map(|points| points.to_string()).as_deref())
            .path
    }
}

impl Client {
    /// Numbers about queues, workers and pools, as series.
    pub async fn statistics(&self, filter: &StatisticsFilter) -> Result<Statistics, ClientError> {
        self.json(Call::get(filter.path())).await
    }

    /// What is wrong now, worst first: of a namespace, or of all the key is good for.
    pub async fn attention(&self, namespace: Option<&str>) -> Result<Attention, ClientError> {
        self.json(Call::get(Query::new("/api/v1/attention").add("namespace", namespace).path)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_not_said() {
        assert_eq!(StatisticsFilter::default().path(), "/api/v1/statistics");
        let filter = StatisticsFilter {
            range: Some("day".into()),
            queue: Some("a b".into()),
            series: vec!["ready".into(), "wait".into()],
            points: Some(30),
            ..StatisticsFilter::default()
        };
        assert_eq!(filter.path(), "/api/v1/statistics?range=day&queue=a%20b&series=ready%2Cwait&points=30");
    }
}
