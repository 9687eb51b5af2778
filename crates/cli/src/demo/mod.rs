//! `baton demo`: a server and its workers as real processes; two are killed, one is frozen, and no work is lost.

mod board;
mod build;
mod children;
mod screen;
mod story;
mod verify;
pub mod worker;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tokio::sync::mpsc;

use crate::exit::Exit;
use crate::output::print_line;
use crate::signals;
use board::{Board, Fate, Row};
use build::{BUILDER_NAMES, BuildStory};
use children::{Server, WorkerProcess};
use screen::Screen;
use story::Story;

const WORKER_NAMES: [&str; 4] = ["finch", "otter", "heron", "lynx"];
/// Runs each worker holds at once.
const SLOTS: u32 = 2;
const QUEUE: &str = "demo";
const RUN_TYPE: &str = "demo";

/// How fast the demo goes.
#[derive(Clone, Copy)]
pub struct Pace {
    runs: usize,
    lease_ttl_ms: u64,
    heartbeat_interval_ms: u64,
    /// How long a run takes, and by how much more at most.
    work_ms: (u64, u64),
    /// How long everything goes well at first.
    quiet: Duration,
    /// How long one looks at a run before its worker is killed.
    look: Option<Duration>,
    /// The demo ends by itself before that.
    longest: Duration,
}

impl Pace {
    /// Short, so that nobody has to wait for the loss to be noticed.
    const QUICK: Pace = Pace {
        runs: 40,
        lease_ttl_ms: 3_000,
        heartbeat_interval_ms: 1_000,
        work_ms: (800, 400),
        quiet: Duration::from_secs(2),
        look: None,
        longest: Duration::from_secs(24),
    };
    /// So that one can follow it in the dashboard: a lease counts down, and a run is handed over.
    const WATCHED: Pace = Pace {
        runs: 12,
        lease_ttl_ms: 8_000,
        heartbeat_interval_ms: 2_000,
        work_ms: (14_000, 4_000),
        quiet: Duration::from_secs(1),
        look: Some(Duration::from_secs(7)),
        longest: Duration::from_secs(150),
    };
}

#[derive(Args)]
#[command(after_help = "Starts a server on a free port with its data in a temporary directory, and four workers. Kills
one with SIGKILL, stops another with SIGSTOP and lets it go on when others have taken over its runs, and shows what
becomes of them. Beside that, a small project is packed, submitted and built; the worker that builds it is killed in the
middle, another one finishes it, and what came out is downloaded and checked. Takes some ten seconds, and never more than half a minute (with --open a minute); with 1
if a run was lost or completed twice, or the build went wrong.

Examples:
  baton demo
  baton demo --open    with the dashboard beside it, slowly: a worker is killed, its lease counts down, another one takes over
  baton demo --keep    go on after the verdict, to look around with the other commands")]
pub struct DemoArgs {
    /// Leave the server and the workers up until Ctrl-C.
    #[arg(long)]
    keep: bool,
    /// Open the dashboard in a browser, and go slowly enough to follow it there. Leaves everything up as --keep does.
    #[arg(long)]
    open: bool,
}

/// Plays the demo.
pub async fn demo(args: DemoArgs) -> Result<(), Exit> {
    let shutdown = signals::shutdown()?;
    let mut shutdown = std::pin::pin!(shutdown);
    let pace = if args.open { Pace::WATCHED } else { Pace::QUICK };
    let directory = tempfile::Builder::new().prefix("baton-demo-").tempdir()?;
    let server = tokio::select! {
        server = Server::start(directory.path(), pace) => server?,
        () = &mut shutdown => return Err(Exit::failed("interrupted")),
    };
    let (sender, events) = mpsc::unbounded_channel();
    let effects: Vec<PathBuf> =
        WORKER_NAMES.iter().map(|name| directory.path().join(format!("{name}.effects"))).collect();
    // Started from this thread, which lives as long as the program: children die with the thread that started them.
    let workers = (0..WORKER_NAMES.len())
        .map(|index| WorkerProcess::start(&server, index, &effects[index], sender.clone()))
        .collect::<Result<Vec<_>, Exit>>()?;
    let rows = WORKER_NAMES.into_iter().zip(&workers).map(|(name, worker)| new_row(name, worker.pid)).collect();
    let mut story = Story {
        client: server.client.clone(),
        workers,
        events,
        board: Board { rows, ..Board::default() },
        screen: Screen::new(WORKER_NAMES.len(), pace.runs),
        pace,
        runs: Vec::new(),
        outages: Vec::new(),
    };
    story.screen.log(format!("a server on {}, leases of {} ms", server.url, pace.lease_ttl_ms));
    let build = BuildStory::start(&server, directory.path(), story.screen.log_alone(), pace.longest)?;
    let played = tokio::select! {
        played = async { tokio::join!(story.play(), build.play()) } => played,
        () = &mut shutdown => (Err(Exit::failed("interrupted")), Err(Exit::failed("interrupted"))),
    };
    story.screen.close();
    let (runs, built) = played;
    runs?;
    let summary = verify::verify(&story, &built?, &effects).await?;
    print_line(format!("\n{summary}"));
    if args.open {
        print_line(format!("\nThe dashboard is at {}, until Ctrl-C.", server.url));
    }
    if args.keep || args.open {
        print_line(format!(
            "\nThe server and {} workers stay up until Ctrl-C. To look around in another terminal:\n\n  \
             export BATON_URL={} BATON_API_KEY={}\n  baton top\n  baton worker list\n  baton run list\n  baton build list",
            WORKER_NAMES.len() - 1 + BUILDER_NAMES.len() - 1,
            server.url,
            server.api_key
        ));
        shutdown.await;
    }
    for worker in story.workers {
        worker.stop().await;
    }
    build.stop().await;
    server.stop().await;
    if summary.wrong.is_empty() { Ok(()) } else { Err(Exit::failed("the demo did not end as it should")) }
}

fn new_row(name: &'static str, pid: u32) -> Row {
    Row { name, pid, worker_id: None, fate: Fate::Alive, held: BTreeMap::new(), completed: 0, refused: 0 }
}
