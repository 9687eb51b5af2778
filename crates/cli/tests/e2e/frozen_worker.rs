//! A worker that is frozen past its lease and then goes on as if nothing had happened.

use baton_core::State;

use crate::hands::Hands;
use crate::on_both_stores;
use crate::site::{Leases, Site, Store, job, submit};
use crate::verdict::{assert_completed_once, wait_for_count};
use crate::wait::eventually;

async fn a_thawed_workers_late_completion_is_refused(store: Store) {
    let site = Site::start(store, Leases::SHORT).await;
    let (client, gate) = (site.client(), site.gate());
    let ids = submit(&client, vec![job()]).await;
    let zombie = site.worker(1, &gate.command());
    wait_for_count(&client, State::Running, 1).await;
    zombie.sigstop();
    // The command is no part of the frozen process: it ends now, and its result waits to be reported.
    gate.open();
    let successor = Hands::register(&client, 1).await;
    let taken = successor.claim_all(1).await;
    assert_eq!(taken[0].epoch, 2);

    zombie.sigcont();
    // Its report is refused, unless a heartbeat brings the news first and it does not even try.
    let what = "the end of what the frozen worker believed to hold";
    let said = eventually(what, async || {
        let said = zombie.output();
        (said.contains("the report was refused") || said.contains("given up by the server")).then_some(said)
    })
    .await;
    let refusal = said.lines().find(|line| line.contains("the report was refused"));
    assert!(refusal.is_none_or(|line| line.contains("lease_lost") && line.contains("epoch=1")), "{said}");
    assert_eq!(client.run(&ids[0]).await.unwrap().state, State::Running, "a late completion changes nothing");
    successor.complete(&taken).await;
    let ended = assert_completed_once(&client, &ids).await;
    assert_eq!(ended[0].run.worker_id.as_deref(), Some(successor.id()));
    assert_eq!(ended[0].run.epoch, 2);
    assert_eq!(successor.complaints(), Vec::<String>::new());
}

on_both_stores!(a_thawed_workers_late_completion_is_refused);
