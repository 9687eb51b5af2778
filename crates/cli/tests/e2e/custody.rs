//! A worker that is frozen past its lease and then goes on: who had the run, and what was refused, can be seen afterwards.

use baton::Client;
use baton_core::State;
use baton_testkit::Baton;
use serde_json::Value;

use crate::balancer::address;
use crate::hands::Hands;
use crate::on_both_stores;
use crate::site::{API_KEY, Gate, Leases, Site, Store, client, job, serve, submit, worker};
use crate::verdict::{assert_completed_once, wait_for_count};
use crate::wait::eventually;
use crate::wire::Request;

/// The cookie of somebody who has signed in, as the form does it.
async fn signed_in(server: &Baton) -> String {
    let form = Request::anonymous("POST", "/signin").header("content-type", "application/x-www-form-urlencoded");
    let answer = form.body(format!("key={API_KEY}&next=%2F").as_bytes()).send(address(&server.url())).await.unwrap();
    let set = answer.header("set-cookie").unwrap_or_else(|| panic!("not signed in: {answer:?}"));
    set.split(';').next().unwrap_or_default().to_owned()
}

/// The file that the dashboard gives out.
async fn ledger(server: &Baton, run: &str) -> Value {
    let asked = Request::anonymous("GET", &format!("/runs/{run}/custody.json"));
    let asked = asked.header("cookie", signed_in(server).await);
    let answer = asked.send(address(&server.url())).await.unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.header("content-disposition").is_some_and(|value| value.starts_with("attachment")));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    answer.json()
}

/// Freezes the only worker of a run, which asks `there`, until another one has completed the run by way of `here`, and
/// thaws it. Checks what is said of that at `here`.
async fn frozen_and_thawed(here: &Baton, there: &Baton, gate: &Gate) {
    let client: Client = client(&here.url());
    let ids = submit(&client, vec![job()]).await;
    let zombie = worker(&there.url(), 1, &gate.command());
    wait_for_count(&client, State::Running, 1).await;
    let holder = client.run(&ids[0]).await.unwrap().worker_id.expect("it is held");
    zombie.sigstop();
    gate.open();
    let successor = Hands::register(&client, 1).await;
    let taken = successor.claim_all(1).await;
    successor.complete(&taken).await;
    assert_completed_once(&client, &ids).await;

    zombie.sigcont();
    let late = eventually("the late write is in the history", async || {
        let events = client.history(&ids[0]).await.unwrap().events;
        events.into_iter().find(|event| event.event == "write_refused")
    })
    .await;
    assert_eq!((late.epoch, late.worker_id.as_deref()), (Some(1), Some(holder.as_str())));
    let told = ledger(here, &ids[0]).await;
    let [lost, kept] = told["lanes"].as_array().unwrap().as_slice() else { panic!("not two leases: {told}") };
    assert_eq!(
        (&lost["epoch"], &lost["end"], &lost["worker_id"]),
        (&1.into(), &"lost".into(), &holder.as_str().into())
    );
    assert_eq!((&kept["epoch"], &kept["end"]), (&2.into(), &"completed".into()));
    assert_eq!(kept["worker_id"], successor.id());
    // Its silence began before the lease was over, and the late write came after that.
    let at = |value: &Value| value.as_str().unwrap().to_owned();
    assert!(at(&lost["last_heartbeat"]) < at(&lost["to"]) && at(&lost["from"]) <= at(&lost["last_heartbeat"]));
    let refused = &lost["refused"][0];
    assert!(at(&refused["at"]) > at(&lost["to"]), "{told}");
    assert_eq!((&refused["epoch"], &refused["current_epoch"]), (&1.into(), &2.into()));
    assert_eq!(successor.complaints(), Vec::<String>::new());
}

async fn a_thawed_workers_late_write_is_on_record(store: Store) {
    let site = Site::start(store, Leases::SHORT).await;
    frozen_and_thawed(&site.server, &site.server, &site.gate()).await;
}

on_both_stores!(a_thawed_workers_late_write_is_on_record);

#[tokio::test(flavor = "multi_thread")]
async fn what_one_server_refuses_is_on_record_at_the_other() {
    let database = baton_testkit::database().await;
    let homes = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let serve = async |home: &tempfile::TempDir| serve(home.path(), Some(database.url()), Leases::SHORT).await;
    let (here, there) = tokio::join!(serve(&homes[0]), serve(&homes[1]));
    frozen_and_thawed(&here, &there, &Gate::in_directory(homes[0].path())).await;
}
