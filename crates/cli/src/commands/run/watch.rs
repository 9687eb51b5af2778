//! `baton run watch`: follow a run, or a queue.

use std::io::IsTerminal;
use std::time::Duration;

use baton::Client;
use baton::proto::{HistoryEvent, QueueView, RunView};
use indicatif::{ProgressBar, ProgressStyle};

use super::{finish, show};
use crate::duration;
use crate::exit::Exit;
use crate::output::{Format, print_line};

/// How often a run is looked at. The server answers earlier when it ends.
const LOOK: Duration = Duration::from_millis(300);
const QUEUE_LOOK: Duration = Duration::from_secs(1);
const SPIN: Duration = Duration::from_millis(100);

/// Lines for every change; on a terminal also a last line that lives.
struct Screen(Option<ProgressBar>);

impl Screen {
    fn new() -> Screen {
        let live = std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
        Screen(live.then(|| {
            let style = ProgressStyle::with_template("{spinner:.cyan} {msg} {elapsed:.dim}");
            let bar = ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.enable_steady_tick(SPIN);
            bar
        }))
    }

    fn line(&self, line: String) {
        match &self.0 {
            Some(bar) => bar.suspend(|| print_line(line)),
            None => print_line(line),
        }
    }

    fn status(&self, status: String) {
        if let Some(bar) = &self.0 {
            bar.set_message(status);
        }
    }

    fn close(self) {
        if let Some(bar) = self.0 {
            bar.finish_and_clear();
        }
    }
}

/// Follows a run to its end.
pub async fn run(client: &Client, id: &str) -> Result<(), Exit> {
    let screen = Screen::new();
    let mut shown: Vec<HistoryEvent> = Vec::new();
    let mut before = None;
    let mut run = client.run(id).await?;
    loop {
        let now = (run.state, run.epoch, run.cancel_by.is_some());
        if before != Some(now) {
            before = Some(now);
            for event in client.history(id).await?.events {
                if !shown.contains(&event) {
                    screen.line(show::event(&event));
                    shown.push(event);
                }
            }
        }
        if run.state.is_ended() {
            break;
        }
        screen.status(status(&run));
        run = client.wait_for_run(id, LOOK).await?;
    }
    screen.close();
    finish(&run, Format::default())
}

fn status(run: &RunView) -> String {
    let holder = match (&run.worker_id, run.state.is_held()) {
        (Some(worker), true) => format!(", epoch {}, held by {worker}", run.epoch),
        _ => String::new(),
    };
    let cancelling = if run.cancel_by.is_some() { ", cancelling" } else { "" };
    format!("{} {}{holder}{cancelling}", run.id, run.state.as_str())
}

/// Follows a queue until interrupted.
pub async fn queue(client: &Client, namespace: &str, name: &str) -> Result<(), Exit> {
    let screen = Screen::new();
    let mut before = String::new();
    loop {
        let queue = client.queue(namespace, name).await?;
        let line = depth(&queue);
        // The age of the oldest run changes all the time, so only the living line shows it.
        let oldest = queue.oldest_ms.map(|ms| format!(", oldest {}", duration::show(ms))).unwrap_or_default();
        screen.status(format!("{name}: {line}{oldest}"));
        if screen.0.is_none() && line != before {
            screen.line(line.clone());
            before = line;
        }
        tokio::time::sleep(QUEUE_LOOK).await;
    }
}

fn depth(queue: &QueueView) -> String {
    let paused = if queue.paused { ", paused" } else { "" };
    format!(
        "{} ready, {} scheduled, {} held, {} sleeping{paused}",
        queue.ready, queue.scheduled, queue.held, queue.sleeping
    )
}
