//! Whether the demo kept its promises: asked of the server, and compared with what the workers did.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use baton::proto::HistoryEvent;
use baton_core::{LeaseEnd, State};

use super::build::Built;
use super::story::Story;
use crate::exit::Exit;
use crate::output::Table;

/// What came out of the demo.
#[derive(Debug, Default)]
pub struct Summary {
    rows: Vec<(&'static str, String)>,
    /// What is not as it should be.
    pub wrong: Vec<String>,
}

impl Summary {
    /// Adds a row.
    pub fn row(&mut self, name: &'static str, value: impl ToString) {
        self.rows.push((name, value.to_string()));
    }

    /// Notes what is wrong, unless it is right.
    pub fn check(&mut self, is_right: bool, wrong: impl FnOnce() -> String) {
        if !is_right {
            self.wrong.push(wrong());
        }
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut table = Table::plain();
        for (name, value) in &self.rows {
            table.row([*name, value]);
        }
        for wrong in &self.wrong {
            table.row(["WRONG", wrong]);
        }
        table.fmt(f)
    }
}

/// Asks the server about every run and the build, and adds up.
pub async fn verify(story: &Story, built: &Built, effects: &[PathBuf]) -> Result<Summary, Exit> {
    let mut summary = Summary::default();
    let executed = read_effects(effects);
    let mut completed = 0;
    for id in &story.runs {
        let run = story.client.run(id).await?;
        let history = story.client.history(id).await?;
        let name = story.board.name(id).to_owned();
        completed += usize::from(run.state == State::Completed);
        summary.check(run.state == State::Completed, || format!("{name} is {}", run.state.as_str()));
        let ends = history.events.iter().filter(|event| event.event == State::Completed.as_str()).count();
        summary.check(ends == 1, || format!("the history of {name} says {ends} times that it was completed"));
        // Asked of the server: a worker may get a run just as it goes silent, and nobody here sees it.
        let is_taken = |event: &&HistoryEvent| {
            event.event == "lease_ended" && event.reason.as_deref() == Some(LeaseEnd::Lost.as_str())
        };
        let taken: Vec<_> = history.events.iter().filter(is_taken).collect();
        let went_silent =
            |worker: &Option<String>| story.outages.iter().any(|outage| worker.as_ref() == Some(&outage.worker_id));
        summary.check(taken.iter().all(|event| went_silent(&event.worker_id)), || {
            format!("{name} was taken from a worker that had not gone silent")
        });
        summary.check(run.epoch as usize == 1 + taken.len(), || {
            format!("{name} has epoch {} and was taken from {} workers", run.epoch, taken.len())
        });
        summary.check(executed.contains_key(&(id.clone(), run.epoch)), || {
            format!("{name} was completed under epoch {}, but nobody did the work under it", run.epoch)
        });
    }
    let accepted_twice = story.board.accepted.values().filter(|count| **count > 1).count();
    let late = &story.board.refusals;
    summary.check(accepted_twice == 0, || "a completion was taken twice".into());
    summary.check(!late.is_empty(), || "no late completion was refused".into());
    summary.check(executed.values().all(|times| *times == 1), || "work was done twice under one epoch".into());

    let executions: u32 = executed.values().sum();
    summary.row("runs", story.runs.len());
    summary.row("completed", completed);
    summary.row("lost", story.runs.len() - completed);
    summary.row("executed", format!("{executions} times (a frozen worker cannot know that its work was taken over)"));
    summary.row("completed twice", accepted_twice);
    let codes = count_codes(late.iter().map(|refusal| refusal.code.as_str()));
    summary.row("late completions refused", format!("{} ({codes})", late.len()));
    for outage in &story.outages {
        let name = story.board.rows[outage.worker].name;
        summary.check(!outage.runs.is_empty(), || format!("{name} held nothing when it went silent"));
        summary.check(outage.noticed.is_some(), || format!("the server did not notice that {name} went silent"));
        summary.check(outage.recovered.is_some(), || format!("the runs of {name} were not recovered"));
    }
    let of = |index: usize| story.outages.get(index);
    let ms = |span: Option<std::time::Duration>| span.map_or("-".into(), |span| format!("{} ms", span.as_millis()));
    summary.row("killed worker noticed after", ms(of(0).and_then(|outage| outage.noticed)));
    summary.row("its runs completed after", ms(of(0).and_then(|outage| outage.recovered)));
    summary.row("frozen worker noticed after", ms(of(1).and_then(|outage| outage.noticed)));
    summary.row("its runs completed after", ms(of(1).and_then(|outage| outage.recovered)));
    built.verify(&story.client, &mut summary).await?;
    summary.row("took", format!("{:.1} s", story.screen.elapsed().as_secs_f64()));
    Ok(summary)
}

/// How often each run was worked on to the end under each epoch.
fn read_effects(files: &[PathBuf]) -> HashMap<(String, u32), u32> {
    let mut executed = HashMap::new();
    let lines = |file: &Path| std::fs::read_to_string(file).unwrap_or_default();
    for text in files.iter().map(|file| lines(file)) {
        for line in text.lines() {
            if let Some((run, epoch)) = line.split_once(' ')
                && let Ok(epoch) = epoch.parse()
            {
                *executed.entry((run.to_owned(), epoch)).or_default() += 1;
            }
        }
    }
    executed
}

fn count_codes<'a>(codes: impl Iterator<Item = &'a str>) -> String {
    let mut counts = std::collections::BTreeMap::<&str, u32>::new();
    for code in codes {
        *counts.entry(code).or_default() += 1;
    }
    let texts: Vec<String> = counts.into_iter().map(|(code, count)| format!("{count} {code}")).collect();
    texts.join(", ")
}
