//! `baton pool claim`: ask for machines, see them come, hand them to whoever runs next.

use std::io::Write;
use std::time::{Duration, Instant};

use baton::proto::{ClaimView, OpenClaim};
use baton::{Client, ClientError};
use baton_core::pools::{ClaimState, Usage};
use clap::Args;
use tokio::time::sleep;

use super::board::Board;
use super::create::{parse_memory, parse_usage};
use super::{NameArgs, claims, show};
use crate::commands::patience::{PAUSE, Patience};
use crate::exit::Exit;
use crate::output::{Format, print_line, print_note};
use crate::{duration, signals};

/// How often a claim is tried to be given up by somebody who wants to go: about as long as CI
/// systems wait before they kill.
const GIVE_UP_TRIES: u32 = 10;
/// The code of a program that was interrupted.
const INTERRUPTED: i32 = 130;

#[derive(Args)]
pub struct ClaimArgs {
    #[command(flatten)]
    name: NameArgs,
    /// Your name for the run; the same again gets the same machines. For GitHub it becomes the label of the machines.
    #[arg(long, value_name = "ID")]
    run_id: String,
    /// How many machines.
    #[arg(long, short, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    /// Type of machines that will do, as a pattern with * and ?. May be given several times. [default: any]
    #[arg(long = "type", short = 't', value_name = "PATTERN")]
    types: Vec<String>,
    /// on-demand takes no spot machines; spot takes both, spot machines first.
    #[arg(long, value_parser = parse_usage)]
    usage: Option<Usage>,
    /// Cores of each machine, exactly.
    #[arg(long)]
    cpu: Option<u32>,
    /// Memory of each machine, at least.
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    memory: Option<u64>,
    /// How long the machines may be kept. [default: as long as the pool allows]
    #[arg(long, value_name = "SPAN", value_parser = duration::parse_positive)]
    runtime: Option<Duration>,
    /// How long to wait for them. [default: what the server says]
    #[arg(long, value_name = "SPAN", value_parser = duration::parse_positive)]
    wait: Option<Duration>,
    /// 0 to 9; 9 goes first.
    #[arg(long, short, value_parser = clap::value_parser!(u8).range(0..=9))]
    priority: Option<u8>,
    #[command(flatten)]
    format: Format,
}

/// A claim of a run, and who is asked about it.
struct Asker<'a> {
    client: &'a Client,
    name: &'a NameArgs,
    run_id: &'a str,
    patience: Patience,
}

/// Claims machines and waits until all are there.
pub async fn claim(client: &Client, args: ClaimArgs) -> Result<(), Exit> {
    let ms = |span: Duration| span.as_millis() as u64;
    let open = OpenClaim {
        run_id: args.run_id.clone(),
        count: Some(args.count),
        types: args.types,
        usage: args.usage,
        cpu: args.cpu,
        memory_mib: args.memory,
        max_runtime_ms: args.runtime.map(ms),
        wait_ms: args.wait.map(ms),
        priority: args.priority,
    };
    let mut asker = Asker { client, name: &args.name, run_id: &args.run_id, patience: Patience::new(Instant::now()) };
    let mut stop = std::pin::pin!(signals::shutdown()?);
    let mut board = Board::new();
    let mut claim = loop {
        // Not cut off: a claim that is opened after it was given up would hold machines that nobody knows of.
        match client.open_pool_claim(&args.name.namespace, &args.name.pool, &open).await {
            Ok(claim) => {
                asker.patience.renew(Instant::now());
                break claim;
            }
            Err(error) => asker.bear(error)?,
        }
        tokio::select! {
            () = sleep(PAUSE) => {}
            () = &mut stop => asker.give_up(board).await,
        }
    };
    if let Some(old) = claimed_before(&claim) {
        print_note(&old);
    }
    while claim.state == ClaimState::Waiting {
        board.show(&claim);
        let asked = tokio::select! {
            asked = asker.ask(board.look()) => asked,
            () = &mut stop => asker.give_up(board).await,
        };
        match asked {
            Ok(newer) => claim = newer,
            Err(error) => {
                asker.bear(error)?;
                sleep(PAUSE).await;
            }
        }
    }
    board.show(&claim);
    board.close();
    finish(&claim, args.format)
}

impl Asker<'_> {
    async fn ask(&mut self, wait: Duration) -> Result<ClaimView, ClientError> {
        let NameArgs { pool, namespace } = self.name;
        let claim = self.client.wait_for_pool_claim(namespace, pool, self.run_id, wait).await?;
        self.patience.renew(Instant::now());
        Ok(claim)
    }

    /// A server that restarts is waited for.
    fn bear(&mut self, error: ClientError) -> Result<(), Exit> {
        if let Some(news) = self.patience.bear(error, Instant::now())? {
            print_note(&news);
        }
        Ok(())
    }

    /// Whoever goes away while it waits leaves nothing behind.
    async fn give_up(&self, board: Board) -> ! {
        board.close();
        let NameArgs { pool, namespace } = self.name;
        for _ in 0..GIVE_UP_TRIES {
            match self.client.release_pool_claim(namespace, pool, self.run_id).await {
                Ok(claim) => {
                    tell(&show::ended(&claim));
                    break;
                }
                Err(ClientError::Refused { status: 404, .. }) => break,
                Err(error) => tell(&format!("the claim is not given up: {error}")),
            }
            sleep(PAUSE).await;
        }
        std::process::exit(INTERRUPTED)
    }
}

/// Says something to somebody who may be gone, with their terminal: that must not keep the claim from being given up.
fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "baton: {text}");
}

/// What is shown of a claim that had ended when it was asked for: nothing is claimed anew under its name.
fn claimed_before(claim: &ClaimView) -> Option<String> {
    let ended_at = claim.ended_at?;
    Some(format!("{} was claimed before, ended at {ended_at}; another --run-id claims anew", claim.run_id))
}

/// Prints the machines, or says why there are none.
fn finish(claim: &ClaimView, format: Format) -> Result<(), Exit> {
    if format.is_json() {
        format.print(claim, |_| String::new());
    }
    let run_id = &claim.run_id;
    match claim.state {
        ClaimState::Ready => {
            if !format.is_json() {
                // One line, as the next step of a workflow wants it. The shapes of the wire always can be written as JSON.
                print_line(serde_json::to_string(&claim.runners).unwrap_or_default());
            }
            claims::lost(claim).map_or(Ok(()), |lost| Err(Exit::failed(lost)))
        }
        ClaimState::Waiting => Err(Exit::failed(format!("the claim of {run_id} still waits"))),
        ClaimState::Released => Err(Exit::refused(format!(
            "{}: machines are claimed once for each run; choose another --run-id",
            show::ended(claim)
        ))),
        ClaimState::Failed => Err(Exit::failed(why(claim))),
    }
}

/// Why a claim was not filled.
fn why(claim: &ClaimView) -> String {
    let reason = show::because(claim.reason.map(|reason| reason.as_str()), &claim.detail);
    let mut text = format!("the claim of {} was not filled: {reason}", claim.run_id);
    if let Some(discarded) = claims::discarded(claim) {
        text.push('\n');
        text.push_str(&discarded);
    }
    text
}

#[cfg(test)]
mod tests {
    use baton::proto::{ClaimFailure, Time};
    use baton_core::pools::{Cause, ClaimReason};

    use super::*;

    fn failed(failures: Vec<ClaimFailure>) -> ClaimView {
        ClaimView {
            run_id: "ci-17".into(),
            pool: "linux".into(),
            namespace: "default".into(),
            state: ClaimState::Failed,
            count: 4,
            priority: 5,
            opened_at: Time(0),
            deadline: None,
            ready_at: None,
            ended_at: None,
            reason: Some(ClaimReason::WaitOver),
            detail: String::new(),
            runners: Vec::new(),
            discarded: failures.len() as u64,
            failures,
        }
    }

    #[test]
    fn whoever_gets_no_machines_is_told_why() {
        assert_eq!(why(&failed(Vec::new())), "the claim of ci-17 was not filled: wait_over");
        let failure =
            |cause, detail: &str| ClaimFailure { runner_id: "r".into(), at: Time(0), cause, detail: detail.into() };
        let failures = vec![
            failure(Cause::RegisterFailed, "exit status: 7\ntrying\nno such token"),
            failure(Cause::Silent, ""),
            failure(Cause::RegisterFailed, "exit status: 7\nno such token"),
        ];
        let failed = failed(failures);
        assert_eq!(
            why(&failed),
            "the claim of ci-17 was not filled: wait_over\n3 machines were discarded:\n\
             \x20 2 times: register_failed: exit status: 7: no such token\n  once: silent"
        );
        let many = why(&ClaimView { discarded: 250, ..failed });
        assert!(many.contains("\n250 machines were discarded; of the last 3:\n"), "{many}");
    }

    #[test]
    fn the_answer_of_an_old_claim_is_told_from_a_new_one() {
        let claim = failed(Vec::new());
        assert_eq!(claimed_before(&claim), None);
        let said = "ci-17 was claimed before, ended at 1970-01-01T00:00:01.000Z; another --run-id claims anew";
        assert_eq!(claimed_before(&ClaimView { ended_at: Some(Time(1_000)), ..claim }), Some(said.into()));
    }

    #[test]
    fn a_claim_that_is_not_filled_ends_the_program_with_its_code() {
        let format = Format::default();
        assert_eq!(finish(&failed(Vec::new()), format), Err(Exit::failed(why(&failed(Vec::new())))));
        let released = ClaimView { state: ClaimState::Released, reason: Some(ClaimReason::Done), ..failed(Vec::new()) };
        let said =
            "the claim of ci-17 is released (done): machines are claimed once for each run; choose another --run-id";
        assert_eq!(finish(&released, format), Err(Exit::refused(said)));
    }
}
