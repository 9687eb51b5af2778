//! `baton bench`: how fast this machine's Baton is, over HTTP, with everything durable and history kept.

mod database;
mod dice;
mod drain;
mod limits;
mod load;
mod pickup;
mod report;
mod scenario;
mod server;
mod tls;
mod wire;
pub mod worker;
mod workflows;

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};

use crate::connection::Connection;
use crate::exit::Exit;
use crate::signals;
use database::Database;
use report::Report;
use scenario::{Options, Scenario};
use server::Server;
use wire::Target;

#[derive(Args)]
#[command(after_help = "Starts a server on a free port with a fresh store for each measurement, unless --running.

Examples:
  baton bench                                          SQLite, and what the disk can do
  baton bench --database postgres://me@db/postgres     both stores; makes and drops databases there
  baton bench --only submit,pickup --json
  baton bench --tls --only submit,drain                plain and over TLS in turns, and how they compare
  baton bench --scenario kills                         0 lost, 0 completed twice, under 20 kill -9
  baton bench --scenario workflow-kills                every step remembered once, every result right")]
pub struct BenchArgs {
    /// Measure the server that --url and --api-key name. Submits to its queue `bench`, and empties it.
    #[arg(long, conflicts_with_all = ["store", "database", "scenario"])]
    running: bool,
    /// The store to measure; both if there is a PostgreSQL, otherwise SQLite.
    #[arg(long)]
    store: Option<Stores>,
    /// A PostgreSQL database whose user may make others.
    #[arg(long, env = "BATON_BENCH_DATABASE_URL", hide_env_values = true, value_name = "URL")]
    database: Option<String>,
    /// Only these measurements.
    #[arg(long, value_delimiter = ',', value_name = "WHAT")]
    only: Vec<Measurement>,
    /// So many runs in each measurement but pickup, and in workflow-kills and timers, claims in
    /// pools, or builds in pollers, instead of the usual sizes.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Play a scenario with floors instead; ends with 1 when one is missed.
    #[arg(long, conflicts_with = "only")]
    scenario: Option<Scenario>,
    /// How long a scenario keeps up its load. [default: 300 for flat, 30 for idle, timers and
    /// pools, 10 for each attack of hostile]
    #[arg(long, requires = "scenario")]
    seconds: Option<u64>,
    /// Decides who is killed and when in workflow-kills. [default: another one each time]
    #[arg(long, requires = "scenario", value_name = "NUMBER")]
    seed: Option<u64>,
    /// Measure plain and over TLS, in turns, and compare; a scenario is played over TLS.
    #[arg(long, conflicts_with = "running")]
    tls: bool,
    /// Print a line of JSON for each figure.
    #[arg(long)]
    json: bool,
}

/// The choice of stores.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Stores {
    Sqlite,
    Postgres,
    Both,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Measurement {
    /// fdatasync, and single-row commits of the stores.
    Limits,
    /// Submit one by one, 32 calls in flight.
    Submit,
    /// Submit 1,000 in a call, 4 calls in flight.
    Bulk,
    /// One worker process completes what is in the store.
    Drain,
    /// The same over the stream of the gRPC service.
    Stream,
    /// Workflows with steps, from their start to their result.
    Workflows,
    /// From the submit call to the handler.
    Pickup,
}

const ALL: [Measurement; 7] = [
    Measurement::Limits,
    Measurement::Submit,
    Measurement::Bulk,
    Measurement::Drain,
    Measurement::Stream,
    Measurement::Workflows,
    Measurement::Pickup,
];
/// Runs that a worker holds at once which is not tuned for throughput: what the SDK has unless it is told otherwise.
const FEW: usize = 100;
/// Runs of the pickup measurement.
const PICKUP_RUNS: usize = 200;

/// A store to be measured.
#[derive(Clone, Debug)]
pub enum Store {
    /// In a file.
    Sqlite,
    /// In databases made next to this one.
    Postgres {
        /// Its address.
        url: String,
    },
}

impl Store {
    /// What it is called in figures.
    fn peer(&self) -> &'static str {
        match self {
            Store::Sqlite => "Baton (SQLite, HTTP)",
            Store::Postgres { .. } => "Baton (PostgreSQL, HTTP)",
        }
    }
}

/// Measures, and prints what came out.
pub async fn run(connection: &Connection, args: BenchArgs) -> Result<(), Exit> {
    let shutdown = signals::shutdown()?;
    let mut report = Report::new(args.json);
    let done = tokio::select! {
        done = measure_all(connection, &args, &mut report) => done,
        () = shutdown => Err(Exit::failed("interrupted")),
    };
    report.print();
    done?;
    if report.missed() { Err(Exit::failed("a floor was missed")) } else { Ok(()) }
}

async fn measure_all(connection: &Connection, args: &BenchArgs, report: &mut Report) -> Result<(), Exit> {
    if args.running {
        return measure_running(connection, args, report).await;
    }
    if std::env::args().any(|argument| argument == "--url" || argument.starts_with("--url=")) {
        return Err(Exit::usage("add --running to measure the server at --url; without it a fresh one is started"));
    }
    let stores = stores(args.store, args.database.as_deref())?;
    if let Some(scenario) = args.scenario {
        let seed = match args.seed {
            Some(seed) => seed,
            None => getrandom::u32().map_err(|error| Exit::failed(format!("no random numbers: {error}")))?.into(),
        };
        let runs = args.runs.map(|runs| runs as usize);
        if args.tls && scenario == Scenario::Hostile {
            return Err(Exit::usage("hostile sends bare frames, which a server that speaks TLS never gets to see"));
        }
        server::speak_tls(args.tls);
        for store in &stores {
            scenario.play(store, Options { seconds: args.seconds, runs, seed }, report).await?;
        }
        return Ok(());
    }
    let plan: Vec<(&Store, Measurement, &str, usize)> = stores
        .iter()
        .flat_map(|store| {
            wanted(args).flat_map(move |what| sizes(what, args.runs).map(move |(m, n)| (store, what, m, n)))
        })
        .collect();
    let progress = progress(plan.len());
    for (store, what, metric, runs) in plan {
        progress.set_message(format!("{} {metric}", store.peer()));
        match what {
            Measurement::Limits => measure_limits(store, report).await?,
            Measurement::Submit
            | Measurement::Bulk
            | Measurement::Drain
            | Measurement::Stream
            | Measurement::Workflows
            | Measurement::Pickup
                if args.tls =>
            {
                tls::compare(store, what, metric, runs, report).await?;
            }
            Measurement::Submit
            | Measurement::Bulk
            | Measurement::Drain
            | Measurement::Stream
            | Measurement::Workflows
            | Measurement::Pickup => {
                let mut server = Server::start(store, &[]).await?;
                measure(&server.target, server.database.as_ref(), store.peer(), what, metric, runs, report).await?;
                server.stop().await;
            }
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(())
}

fn stores(wanted: Option<Stores>, database: Option<&str>) -> Result<Vec<Store>, Exit> {
    let postgres = database.map(|url| Store::Postgres { url: url.to_owned() });
    let missing = || Exit::usage("--database (or BATON_BENCH_DATABASE_URL) must name a PostgreSQL database");
    Ok(match (wanted, postgres) {
        (Some(Stores::Sqlite), _) | (None, None) => vec![Store::Sqlite],
        (Some(Stores::Postgres), Some(postgres)) => vec![postgres],
        (Some(Stores::Both) | None, Some(postgres)) => vec![Store::Sqlite, postgres],
        (Some(Stores::Postgres | Stores::Both), None) => return Err(missing()),
    })
}

fn wanted(args: &BenchArgs) -> impl Iterator<Item = Measurement> {
    ALL.into_iter().filter(|what| args.only.is_empty() || args.only.contains(what))
}

/// The metrics of a measurement, each with how many runs it takes. The names are those of the peers' drivers.
fn sizes(what: Measurement, runs: Option<u32>) -> impl Iterator<Item = (&'static str, usize)> {
    let usual: &[(&'static str, usize)] = match what {
        Measurement::Limits => &[("limits", 0)],
        Measurement::Submit => &[("enqueue_one", 5_000), ("enqueue_one_20k", 20_000)],
        Measurement::Bulk => &[("enqueue_bulk", 20_000)],
        Measurement::Drain => &[("drain", 20_000), ("drain_100k", 100_000), ("drain_few", 20_000)],
        Measurement::Stream => {
            &[("drain_stream", 20_000), ("drain_stream_100k", 100_000), ("drain_stream_few", 20_000)]
        }
        Measurement::Workflows => &[("wf3", 10_000), ("wf3_c128", 10_000), ("wf1", 10_000)],
        Measurement::Pickup => &[("pickup", PICKUP_RUNS)],
    };
    let sized = !matches!(what, Measurement::Limits | Measurement::Pickup);
    let chosen = match runs {
        Some(runs) if sized => vec![(usual[0].0, runs as usize)],
        Some(_) | None => usual.to_vec(),
    };
    chosen.into_iter()
}

/// How the worker of a drain works.
fn drained_by(what: Measurement, metric: &str) -> drain::By {
    match (what, metric.ends_with("_few")) {
        (Measurement::Stream, false) => drain::By::STREAM,
        (Measurement::Stream, true) => drain::By::Stream { slots: FEW as u32 },
        (_, false) => drain::By::BATCHES,
        (_, true) => drain::By::Batches { claim: FEW, polls: 1 },
    }
}

async fn measure(
    target: &Target,
    database: Option<&Database>,
    peer: &str,
    what: Measurement,
    metric: &str,
    runs: usize,
    report: &mut Report,
) -> Result<(), Exit> {
    let per_second = |time: std::time::Duration| runs as f64 / time.as_secs_f64();
    match what {
        Measurement::Submit => {
            let time = load::one_by_one(target, runs).await?;
            let settings = format!("POST runs, {} in flight, {runs} runs", load::IN_FLIGHT);
            report.add(peer, metric, per_second(time), "jobs/s", settings);
        }
        Measurement::Bulk => {
            let time = load::bulk(target, runs).await?;
            let settings =
                format!("POST runs/batch, {} per call, {} calls in flight", load::BULK_RUNS, load::BULK_IN_FLIGHT);
            report.add(peer, metric, per_second(time), "jobs/s", settings);
        }
        Measurement::Drain | Measurement::Stream => {
            let by = drained_by(what, metric);
            let time = drain::measure(target, database, runs, by).await?;
            report.add(peer, metric, per_second(time), "jobs/s", format!("{by}, {runs} runs, history kept"));
        }
        Measurement::Workflows => {
            let steps = if metric == "wf1" { 1 } else { 3 };
            let in_flight = if metric == "wf3" { load::IN_FLIGHT } else { workflows::IN_FLIGHT };
            let time = workflows::measure(target, runs, steps, in_flight).await?;
            let settings = format!("started and waited for over gRPC, {steps} steps, {in_flight} in flight");
            report.add(peer, metric, per_second(time), "workflows/s", settings);
        }
        Measurement::Pickup => {
            let latencies = pickup::measure(target, runs).await?;
            for (metric, share) in [("pickup_p50", 0.5), ("pickup_p99", 0.99)] {
                report.add(peer, metric, latencies.quantile(share), "ms", "one waiting claim, same process");
            }
        }
        Measurement::Limits => {}
    }
    Ok(())
}

async fn measure_limits(store: &Store, report: &mut Report) -> Result<(), Exit> {
    match store {
        Store::Sqlite => {
            let directory = tempfile::Builder::new().prefix("baton-bench-").tempdir()?;
            report.add("disk", "fdatasync_8k", limits::fdatasync(directory.path())?, "ops/s", "one 8 kB write");
            let peer = format!("SQLite {} (WAL, synchronous=FULL)", rusqlite::version());
            let rate = limits::sqlite(directory.path())?;
            report.add(&peer, "insert_single_commit", rate, "rows/s", "one connection, one row per commit");
        }
        Store::Postgres { url } => {
            let settings = format!("{} connections, one row per commit", load::IN_FLIGHT);
            report.add("PostgreSQL", "insert_single_commit", limits::postgres(url).await?, "rows/s", settings);
        }
    }
    Ok(())
}

/// Measures a server that is up already. What a measurement leaves in its queue is worked off.
async fn measure_running(connection: &Connection, args: &BenchArgs, report: &mut Report) -> Result<(), Exit> {
    let url = connection.find_url();
    let api_key = connection.find_api_key()?.unwrap_or_default();
    let target = Target::new(&url, &api_key, connection.tls_options()?)?;
    let peer = format!("Baton ({})", target.address);
    let plan: Vec<_> = wanted(args)
        .filter(|what| *what != Measurement::Limits)
        .flat_map(|what| sizes(what, args.runs).map(move |(metric, runs)| (what, metric, runs)))
        .collect();
    let progress = progress(plan.len());
    for (what, metric, runs) in plan {
        progress.set_message(metric);
        measure(&target, None, &peer, what, metric, runs, report).await?;
        if matches!(what, Measurement::Submit | Measurement::Bulk) {
            drain::work(&target, runs, drain::By::BATCHES).await?;
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(())
}

fn progress(steps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} [{pos}/{len}] {msg} {elapsed}");
    let bar = ProgressBar::new(steps as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(std::time::Duration::from_millis(250));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_stores_are_measured_where_there_are_two() {
        let names =
            |wanted, url: Option<&str>| -> Vec<&str> { stores(wanted, url).unwrap().iter().map(Store::peer).collect() };
        assert_eq!(names(None, None), ["Baton (SQLite, HTTP)"]);
        assert_eq!(names(None, Some("x")), ["Baton (SQLite, HTTP)", "Baton (PostgreSQL, HTTP)"]);
        assert_eq!(names(Some(Stores::Sqlite), Some("x")), ["Baton (SQLite, HTTP)"]);
        assert!(stores(Some(Stores::Both), None).is_err());
    }

    #[test]
    fn a_size_of_ones_own_replaces_the_usual_ones() {
        let of = |what, runs| sizes(what, runs).collect::<Vec<_>>();
        assert_eq!(of(Measurement::Drain, None), [("drain", 20_000), ("drain_100k", 100_000), ("drain_few", 20_000)]);
        assert_eq!(of(Measurement::Drain, Some(7)), [("drain", 7)]);
        assert_eq!(of(Measurement::Pickup, Some(7)), [("pickup", PICKUP_RUNS)]);
    }
}
