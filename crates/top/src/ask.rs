//! What is asked of the server, and what it answers.

use std::time::Duration;

use baton::proto::{
    ClaimPage, Explanation, History, PoolPage, PoolView, QueueView, RunPage, RunView, RunnerPage, Statistics,
    WorkerPage, WorkerView,
};
use baton::{ClientError, RunFilter, State, StepView};

/// Runs of one lane wait for the same reasons, so one of them is asked about.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Lane {
    pub namespace: String,
    pub queue: String,
    pub kind: String,
    pub key: Option<String>,
}

impl Lane {
    pub fn of(run: &RunView) -> Lane {
        Lane {
            namespace: run.namespace.clone(),
            queue: run.queue.clone(),
            kind: run.kind.clone(),
            key: run.key.clone(),
        }
    }
}

/// A name in a namespace.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Named {
    pub namespace: String,
    pub name: String,
}

/// One thing to ask.
#[derive(Clone, PartialEq, Debug)]
pub enum Ask {
    /// Rates and depths of the last minutes.
    Numbers,
    Queues,
    Runs(RunFilter),
    /// Workers with this status.
    Workers(&'static str),
    Pools,
    /// Why a run waits, for all of its lane.
    WhyLane(Lane, String),
    /// The same, for one run.
    Why(String),
    /// Which types wait in a queue.
    Types(Named),
    Run(String),
    History(String),
    Steps(String),
    Worker(String),
    /// The runs that a worker holds.
    HeldBy(String),
    Pool(Named),
    /// Claims of a pool that wait.
    Claims(Named),
    Machines(Named),
    /// Lines of a log after this number.
    Log(String, u64),
}

/// What came of it.
#[derive(Debug)]
pub enum Answer {
    Numbers(Statistics),
    Queues(Vec<QueueView>),
    Runs(RunPage),
    Workers(WorkerPage),
    Pools(PoolPage),
    Why(Explanation),
    Types(RunPage),
    Run(Box<RunView>),
    History(History),
    Steps(Vec<StepView>),
    Worker(Box<WorkerView>),
    HeldBy(RunPage),
    Pool(Box<PoolView>),
    Claims(ClaimPage),
    Machines(RunnerPage),
    /// Lines with their numbers.
    Log(Vec<(u64, String)>),
}

/// Rows of one page.
pub const PAGE: usize = 100;
/// Waiting runs of a queue that are looked at for their types.
pub const TYPES_SAMPLE: usize = 100;
/// Most workers of one status that are shown.
pub const WORKERS_MAX: usize = 500;
/// Lines of a log in one answer.
pub const LOG_PAGE: usize = 1_000;
/// The stretch that the header's small charts show.
pub const CHART: Duration = Duration::from_secs(300);

impl Ask {
    /// How long an answer is good for. What is heard of by events, or changes seldom, is asked for less often.
    pub fn every(&self) -> Duration {
        Duration::from_millis(match self {
            Ask::Numbers => 5_000,
            Ask::Queues | Ask::Runs(_) | Ask::Pools => 2_000,
            Ask::Workers("ONLINE") => 2_000,
            Ask::Workers("DRAINING") => 5_000,
            Ask::Workers(_) => 10_000,
            Ask::WhyLane(..) => 10_000,
            Ask::Types(_) => 15_000,
            Ask::Why(_) => 3_000,
            Ask::History(_) | Ask::Steps(_) | Ask::HeldBy(_) => 2_000,
            Ask::Run(_) | Ask::Worker(_) | Ask::Pool(_) | Ask::Log(..) => 1_000,
            Ask::Claims(_) | Ask::Machines(_) => 2_000,
        })
    }

    /// Asks the server.
    pub async fn send(&self, client: &baton::Client, namespace: Option<&str>, now: i64) -> Result<Answer, ClientError> {
        Ok(match self {
            Ask::Numbers => {
                let filter = baton::StatisticsFilter {
                    from: Some(baton::proto::Time(now - CHART.as_millis() as i64)),
                    namespace: namespace.map(str::to_owned),
                    series: ["completed", "failed", "ready", "running"].map(str::to_owned).to_vec(),
                    ..baton::StatisticsFilter::default()
                };
                Answer::Numbers(client.statistics(&filter).await?)
            }
            Ask::Queues => Answer::Queues(client.queues(namespace).await?.queues),
            Ask::Runs(filter) => Answer::Runs(client.runs(filter).await?),
            Ask::Workers(status) => {
                let filter = baton::WorkerFilter {
                    namespace: namespace.map(str::to_owned),
                    status: Some((*status).to_owned()),
                    limit: Some(if *status == "OFFLINE" { PAGE } else { WORKERS_MAX }),
                    ..baton::WorkerFilter::default()
                };
                Answer::Workers(client.workers(&filter).await?)
            }
            Ask::Pools => Answer::Pools(client.pools(namespace, Some(WORKERS_MAX), None).await?),
            Ask::WhyLane(_, id) | Ask::Why(id) => Answer::Why(client.explain(id).await?),
            Ask::Types(queue) => {
                let filter = RunFilter {
                    namespace: Some(queue.namespace.clone()),
                    queue: Some(queue.name.clone()),
                    state: Some(State::Pending),
                    limit: Some(TYPES_SAMPLE),
                    ..RunFilter::default()
                };
                Answer::Types(client.runs(&filter).await?)
            }
            Ask::Run(id) => Answer::Run(Box::new(client.run(id).await?)),
            Ask::History(id) => Answer::History(client.history(id).await?),
            Ask::Steps(id) => Answer::Steps(client.workflow(id).steps().await?),
            Ask::Worker(id) => Answer::Worker(Box::new(client.worker(id).await?)),
            Ask::HeldBy(id) => {
                let filter = RunFilter {
                    worker: Some(id.clone()),
                    states: vec![State::Assigned, State::Running],
                    limit: Some(PAGE),
                    ..RunFilter::default()
                };
                Answer::HeldBy(client.runs(&filter).await?)
            }
            Ask::Pool(pool) => Answer::Pool(Box::new(client.pool(&pool.namespace, &pool.name).await?)),
            Ask::Claims(pool) => {
                let waiting = Some(baton_core::pools::ClaimState::Waiting);
                Answer::Claims(client.pool_claims(&pool.namespace, &pool.name, waiting, Some(PAGE), None).await?)
            }
            Ask::Machines(pool) => {
                Answer::Machines(client.pool_runners(&pool.namespace, &pool.name, None, Some(PAGE), None).await?)
            }
            Ask::Log(id, after) => {
                let page = client.build_logs(id, *after, LOG_PAGE, Duration::ZERO).await?;
                Answer::Log(page.logs.into_iter().map(|line| (line.number, line.message)).collect())
            }
        })
    }
}
