//! `baton pool claims`: the claims of a pool, or one of them.

use baton::Client;
use baton::proto::{ClaimFailure, ClaimPage, ClaimView};
use baton_core::pools::ClaimState;
use clap::Args;

use super::{NameArgs, board, show};
use crate::exit::Exit;
use crate::output::{Column, Listing, Look, Table, or_dash};

#[derive(Args)]
pub struct ClaimsArgs {
    #[command(flatten)]
    name: NameArgs,
    /// Only the claim of this run, with its machines and those that it had to discard.
    #[arg(conflicts_with_all = ["state", "limit", "cursor", "watch"])]
    run_id: Option<String>,
    /// In this state: waiting, ready, released or failed.
    #[arg(long, short, value_parser = parse_state)]
    state: Option<ClaimState>,
    /// At most this many.
    #[arg(long, default_value_t = 50)]
    limit: usize,
    /// Go on where a list ended.
    #[arg(long)]
    cursor: Option<String>,
    #[command(flatten)]
    listing: Listing,
}

fn parse_state(word: &str) -> Result<ClaimState, String> {
    let wanted = || format!("one of {} is wanted", ClaimState::ALL.map(ClaimState::as_str).join(", "));
    ClaimState::parse(word).ok_or_else(wanted)
}

/// Lists claims, or shows one.
pub async fn claims(client: &Client, args: ClaimsArgs) -> Result<(), Exit> {
    let ClaimsArgs { name: NameArgs { pool, namespace }, run_id, state, limit, cursor, listing } = args;
    match run_id {
        Some(run_id) => listing.format.show(&client.pool_claim(&namespace, &pool, &run_id).await?, one),
        None => {
            let ask = async || client.pool_claims(&namespace, &pool, state, Some(limit), cursor.as_deref()).await;
            listing.show(ask, table).await?;
        }
    }
    Ok(())
}

fn table(page: &ClaimPage, look: Look) -> Table {
    let mut table = Table::of([
        Column::key("run"),
        Column::state("state"),
        Column::number("count"),
        Column::number("live"),
        Column::number("priority"),
        Column::age("since"),
        Column::age("until"),
        Column::text("reason"),
    ]);
    for claim in &page.claims {
        let since = claim.ended_at.or(claim.ready_at).unwrap_or(claim.opened_at);
        let until = claim.deadline.filter(|_| claim.ended_at.is_none());
        table.row([
            claim.run_id.clone(),
            claim.state.as_str().to_owned(),
            claim.count.to_string(),
            or_dash(claim.live.filter(|_| claim.ended_at.is_none())),
            claim.priority.to_string(),
            look.age(since),
            or_dash(until.map(|until| look.now.ahead(until))),
            show::because(claim.reason.map(|reason| reason.as_str()), &show::gist(&claim.detail)),
        ]);
    }
    table
}

/// One claim, with its machines and what became of the others.
fn one(claim: &ClaimView, look: Look) -> String {
    let mut table = Table::plain();
    table.field("claim", Some(board::headline(claim)));
    table.field("namespace", Some(&claim.namespace));
    table.field("count", Some(claim.count));
    table.field("priority", Some(claim.priority));
    table.field("opened", Some(look.moment(claim.opened_at)));
    table.field("handed over", claim.ready_at.map(|at| look.moment(at)));
    table.field("until", claim.deadline.filter(|_| claim.ended_at.is_none()).map(|at| look.moment(at)));
    table.field("ended", claim.ended_at.map(|at| look.moment(at)));
    let reason = show::because(claim.reason.map(|reason| reason.as_str()), &show::gist(&claim.detail));
    table.field("reason", Some(reason).filter(|reason| !reason.is_empty()));
    let machines = (!claim.runners.is_empty()).then(|| board::table(claim));
    let parts = [Some(table.render(look)), machines, discarded(claim)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("\n")
}

/// What a claim had to discard, each reason once.
pub(super) fn discarded(claim: &ClaimView) -> Option<String> {
    let reasons = reasons(claim.failures.iter())?;
    let machines = if claim.discarded == 1 { "machine was" } else { "machines were" };
    let shown = claim.failures.len();
    let of = if claim.discarded > shown as u64 { format!("; of the last {shown}:") } else { ":".into() };
    Some(format!("{} {machines} discarded{of}{reasons}", claim.discarded))
}

/// What is said of a claim that was filled and has lost machines since: none come in their place.
pub(super) fn lost(claim: &ClaimView) -> Option<String> {
    let lost = board::missing(claim);
    let ready_at = claim.ready_at.filter(|_| lost > 0 && claim.state == ClaimState::Ready)?;
    let reasons = reasons(claim.failures.iter().filter(|failure| failure.at >= ready_at)).unwrap_or_default();
    let (run_id, count) = (&claim.run_id, claim.count);
    Some(format!(
        "{lost} of {count} lost, and none comes in its place: release {run_id}, and claim anew with another --run-id{reasons}"
    ))
}

fn reasons<'a>(failures: impl Iterator<Item = &'a ClaimFailure>) -> Option<String> {
    let line = |(why, failures): (String, Vec<&ClaimFailure>)| match failures.len() {
        1 => format!("\n  once: {why}"),
        times => format!("\n  {times} times: {why}"),
    };
    let lines: String = board::grouped(failures).into_iter().map(line).collect();
    (!lines.is_empty()).then_some(lines)
}

#[cfg(test)]
mod tests {
    use baton::proto::ListedClaim;
    use serde_json::json;

    use super::*;

    fn claim(more: serde_json::Value) -> ClaimView {
        let mut all = json!({
            "run_id": "ci-1", "pool": "linux", "namespace": "default", "state": "failed", "count": 2, "priority": 5,
            "opened_at": "1970-01-01T00:00:00Z", "deadline": "1970-01-01T00:01:00Z", "ended_at": "1970-01-01T00:01:00Z",
            "reason": "wait_over", "detail": "0 of 2"
        });
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }

    fn failure(second: u8, cause: &str, detail: &str) -> serde_json::Value {
        json!({"runner_id": "r", "at": format!("1970-01-01T00:00:{second:02}Z"), "cause": cause, "detail": detail})
    }

    #[test]
    fn claims_say_since_when_they_stand_as_they_do() {
        let waits = json!({"state": "waiting", "ended_at": null, "deadline": null, "reason": null, "detail": ""});
        let claims = vec![
            ListedClaim::from(claim(json!({}))),
            ListedClaim { live: Some(1), ..ListedClaim::from(claim(waits.clone())) },
            ListedClaim { live: None, ..ListedClaim::from(claim(waits)) },
        ];
        let look = Look::test(80, 65_000);
        let shown = table(&ClaimPage { claims, next_cursor: None }, look).render(look);
        let expected = "RUN   STATE    COUNT  LIVE  PRIORITY  SINCE  UNTIL  REASON\n\
                        ci-1  failed       2     -         5     5s      -  wait_over: 0 of 2\n\
                        ci-1  waiting      2     1         5     1m      -\n\
                        ci-1  waiting      2     -         5     1m      -\n";
        assert_eq!(shown, expected);
    }

    #[test]
    fn one_claim_names_what_it_had_to_discard() {
        let said = "exit status: 7\nno such token";
        let failures = [failure(9, "register_failed", said), failure(8, "register_failed", said)];
        let shown = one(&claim(json!({"failures": failures, "discarded": 2})), Look::test(80, 0));
        assert!(shown.starts_with("claim      ci-1 of linux, failed\n"), "{shown}");
        let discarded = "2 machines were discarded:\n  2 times: register_failed: exit status: 7: no such token";
        assert!(shown.contains("reason     wait_over: 0 of 2\n") && shown.ends_with(discarded), "{shown}");
        assert!(!one(&claim(json!({})), Look::test(80, 0)).contains("discarded"));
    }

    #[test]
    fn machines_that_were_lost_are_told_from_those_that_never_came() {
        let failures = [failure(40, "lost", "its agent has ended"), failure(10, "silent", "")];
        let runner =
            json!({"id": "r", "phase": "running", "type": "local", "usage": "on_demand", "cpu": 1, "memory_mib": 1});
        let ready = claim(json!({
            "state": "ready", "ready_at": "1970-01-01T00:00:20Z", "ended_at": null, "reason": null, "detail": "",
            "runners": [runner], "failures": failures, "discarded": 2
        }));
        let said = "1 of 2 lost, and none comes in its place: release ci-1, and claim anew with another --run-id\n  \
                    once: lost: its agent has ended";
        assert_eq!(lost(&ready).as_deref(), Some(said));
        assert_eq!(lost(&ClaimView { count: 1, ..ready.clone() }), None);
        assert_eq!(lost(&ClaimView { state: ClaimState::Released, ..ready }), None);
    }
}
