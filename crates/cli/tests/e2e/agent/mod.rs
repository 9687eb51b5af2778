//! `baton agent` as a process, against a server that says what the test wants.

mod stand_in;

use std::path::Path;

use baton::proto::RunnerAction;
use baton_core::pools::Signal;
use baton_testkit::Process;
use tempfile::TempDir;

use crate::site::BATON;
use crate::wait::{PATIENCE, eventually};
use stand_in::{JOIN_TOKEN, RUN, StandIn};

/// An agent and its server. `OUT` in a hook is a directory that the test can read.
struct Site {
    server: StandIn,
    agent: Process,
    home: TempDir,
}

impl Site {
    async fn start(register: &str, deregister: &str, more: &[&str]) -> Site {
        let server = StandIn::start().await;
        let home = tempfile::tempdir().unwrap();
        let agent = agent(&server, home.path(), register, deregister, more);
        Site { server, agent, home }
    }

    /// An agent that has registered for a run.
    async fn registered(register: &str, deregister: &str, more: &[&str]) -> Site {
        let site = Site::start(register, deregister, more).await;
        site.server.hear(Signal::Ready, 0).await;
        site.server.order(RunnerAction::Register, 1, Some(10_000));
        site.server.hear(Signal::Registered, 1).await;
        site
    }

    /// What a hook has written, once it is there as a whole line.
    async fn read(&self, name: &str) -> String {
        let path = self.home.path().join(name);
        eventually(name, async || std::fs::read_to_string(&path).ok()?.strip_suffix('\n').map(str::to_owned)).await
    }

    /// Directories of runs.
    fn places(&self) -> usize {
        let parts = std::fs::read_dir(self.home.path().join("work")).unwrap().map(|entry| entry.unwrap().path());
        parts.filter(|part| part.is_dir()).map(|part| std::fs::read_dir(part).unwrap().count()).sum()
    }
}

fn agent(server: &StandIn, home: &Path, register: &str, deregister: &str, more: &[&str]) -> Process {
    let out = home.to_str().unwrap();
    let (register, deregister) = (register.replace("OUT", out), deregister.replace("OUT", out));
    let work = home.join("work");
    let arguments = ["agent", "--register-hook", &register, "--deregister-hook", &deregister, "--work-dir"];
    let more: Vec<String> = more.iter().map(|argument| argument.replace("OUT", out)).collect();
    let arguments = arguments.into_iter().chain([work.to_str().unwrap()]).chain(more.iter().map(String::as_str));
    let environment =
        [("BATON_URL", server.url.as_str()), ("BATON_JOIN_TOKEN", JOIN_TOKEN), ("BATON_MACHINE_ID", "m-1")];
    Process::spawn(BATON, arguments, environment)
}

/// Waits until a process is no more; what has ended and was not yet waited for has an empty command line.
async fn gone(pid: &str) {
    let path = format!("/proc/{pid}/cmdline");
    let what = "the end of what a hook started";
    eventually(what, async || std::fs::read(&path).map_or(true, |line| line.is_empty()).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_serves_one_run_after_another_and_ends_when_it_is_told() {
    let register = "[ ! -e left ] || exit 1; touch left; sleep 600 & echo $! > OUT/service";
    let mut site = Site::start(register, "echo $BATON_RUN_ID > OUT/removed", &[]).await;
    assert_eq!(site.server.hear(Signal::Ready, 0).await.run_id, None);
    site.server.order(RunnerAction::Idle, 0, None);
    for epoch in [1, 3] {
        site.server.order(RunnerAction::Register, epoch, Some(10_000));
        assert_eq!(site.server.hear(Signal::Registered, epoch).await.run_id.as_deref(), Some(RUN));
        let service = site.read("service").await;
        site.server.order(RunnerAction::Keep, epoch, Some(3_600_000));
        site.server.order(RunnerAction::Deregister, epoch + 1, Some(60_000));
        assert_eq!(site.server.hear(Signal::Deregistered, epoch + 1).await.run_id.as_deref(), Some(RUN));
        assert_eq!(site.places(), 0);
        gone(&service).await;
        assert_eq!(site.read("removed").await, RUN);
        site.server.order(RunnerAction::Idle, epoch + 1, None);
    }
    site.server.until("heartbeats", |talk| talk.beats > 3).await;
    site.server.order(RunnerAction::End, 5, None);
    assert!(site.agent.wait(PATIENCE).await.success(), "{}", site.agent.output());
    assert_eq!(std::fs::read_dir(site.home.path().join("work")).unwrap().count(), 0);
    let talk = site.server.until("the end", |_| true).await;
    assert_eq!(talk.signals.len(), 5, "each thing is said once: {:?}", talk.signals);
    assert_eq!(talk.joins.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_not_answered_is_said_again() {
    let site = Site::start("true", "true", &[]).await;
    site.server.hear(Signal::Ready, 0).await;
    site.server.change(|talk| talk.signals_lost = 2);
    site.server.order(RunnerAction::Register, 1, Some(10_000));
    let talk = site
        .server
        .until("the third time", |talk| {
            talk.signals.iter().filter(|said| said.signal == Signal::Registered).count() == 3
        })
        .await;
    assert!(talk.signals[1..].iter().all(|said| *said == talk.signals[1]), "{:?}", talk.signals);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_fails_is_told_with_its_last_words() {
    let site = Site::start("echo no token >&2; exit 3", "true", &[]).await;
    site.server.hear(Signal::Ready, 0).await;
    site.server.order(RunnerAction::Register, 1, Some(10_000));
    let said = site.server.hear(Signal::RegisterFailed, 1).await;
    assert!(said.detail.ends_with("no token"), "{said:?}");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_run_outlives_an_agent_that_is_killed() {
    let waits = "echo $$ > OUT/hook; sleep 600";
    let serves = "sleep 600 & echo $! > OUT/service";
    // While it registers.
    let mut site = Site::start(waits, "true", &[]).await;
    site.server.hear(Signal::Ready, 0).await;
    site.server.order(RunnerAction::Register, 1, Some(10_000));
    let hook = site.read("hook").await;
    site.agent.sigkill();
    gone(&hook).await;
    // When it is registered.
    let mut site = Site::registered(serves, "true", &[]).await;
    let service = site.read("service").await;
    site.agent.sigkill();
    gone(&service).await;
    // While it deregisters.
    let mut site = Site::registered(serves, waits, &[]).await;
    let service = site.read("service").await;
    site.server.order(RunnerAction::Deregister, 2, Some(60_000));
    let hook = site.read("hook").await;
    site.agent.sigkill();
    gone(&service).await;
    gone(&hook).await;
    // The next agent on this machine removes what the files of the run were.
    assert_eq!(site.places(), 1);
    let _next = agent(&site.server, site.home.path(), "true", "true", &[]);
    site.server.until("the next agent", |talk| talk.joins.len() == 2).await;
    assert_eq!(site.places(), 0);
    let nonces = site.server.until("two", |_| true).await.joins.into_iter().map(|join| join.nonce);
    assert_eq!(nonces.collect::<std::collections::BTreeSet<_>>().len(), 2, "it is another one, and the server knows");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_without_a_server_ends_its_machine() {
    let more = ["--unreachable", "1s", "--end-with", "echo x >> OUT/ended"];
    let mut site = Site::registered("sleep 600 & echo $! > OUT/service", "echo x > OUT/removed", &more).await;
    let service = site.read("service").await;
    site.server.change(|talk| talk.is_away = true);
    assert_eq!(site.agent.wait(PATIENCE).await.code(), Some(1), "{}", site.agent.output());
    assert_eq!((site.read("ended").await, site.read("removed").await), ("x".into(), "x".into()));
    gone(&service).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_whose_run_is_over_its_time_ends_although_the_server_is_there() {
    let more = ["--overtime", "100ms", "--end-with", "echo x >> OUT/ended"];
    let mut site = Site::registered("true", "echo x > OUT/removed", &more).await;
    site.server.order(RunnerAction::Keep, 1, Some(3_600_000));
    let beats = site.server.until("a beat", |_| true).await.beats;
    site.server.until("more beats", |talk| talk.beats > beats + 2).await;
    assert!(site.agent.ended().is_none(), "{}", site.agent.output());
    site.server.order(RunnerAction::Keep, 1, Some(0));
    // It goes on to say so with every heartbeat.
    assert_eq!(site.agent.wait(PATIENCE).await.code(), Some(1), "{}", site.agent.output());
    assert_eq!((site.read("ended").await, site.read("removed").await), ("x".into(), "x".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_may_not_join_ends_its_machine() {
    let server = StandIn::start().await;
    server.change(|talk| talk.is_taken = true);
    let home = tempfile::tempdir().unwrap();
    let mut agent = agent(&server, home.path(), "true", "true", &["--end-with", "echo x >> OUT/ended"]);
    assert_eq!(agent.wait(PATIENCE).await.code(), Some(1), "{}", agent.output());
    assert_eq!(std::fs::read_to_string(home.path().join("ended")).unwrap(), "x\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_stopped_deregisters_and_leaves_its_machine_alone() {
    let more = ["--end-with", "echo x >> OUT/ended"];
    let mut site = Site::registered("sleep 600 & echo $! > OUT/service", "echo x > OUT/removed", &more).await;
    let service = site.read("service").await;
    assert!(site.agent.sigterm_and_wait(PATIENCE).await.success(), "{}", site.agent.output());
    assert_eq!(site.read("removed").await, "x");
    gone(&service).await;
    assert!(!site.home.path().join("ended").exists());
}
