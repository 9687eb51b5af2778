//! A standby of PostgreSQL takes over while the server runs. What the database has lost is lost,
//! and nothing else.

use baton::proto::{Claim, ClaimedRun, CompleteRun, RegisterWorker, SubmitRun};
use baton::{Client, ClientError};
use baton_testkit::{Baton, Database, Postgres};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::site::{KIND, Leases, client, serve};
use crate::wait::{LOOK, PATIENCE, until_answered};

/// More than a sequence skips when its database crashes, so that numbers come again.
const QUEUES: usize = 41;

struct Cluster {
    server: Baton,
    primary: Postgres,
    standby: Postgres,
    _database: Database,
    _home: TempDir,
}

impl Cluster {
    /// A server that knows both of its databases by name.
    async fn start() -> Cluster {
        let primary = Postgres::durable().await;
        let database = primary.new_database().await;
        let standby = primary.standby().await;
        let (_, name) = database.url().rsplit_once('/').unwrap();
        // The standby first: whichever host can be written to is the one.
        let url = format!("postgres://baton@{},{}/{name}", standby.address(), primary.address());
        let home = tempfile::tempdir().unwrap();
        let server = serve(home.path(), Some(&url), Leases::LONG).await;
        Cluster { server, primary, standby, _database: database, _home: home }
    }

    async fn fail_over(&mut self) -> Client {
        self.primary.kill9();
        self.standby.promote().await;
        let client = client(&self.server.url());
        let until = Instant::now() + PATIENCE;
        while let Err(error) = client.readyz().await {
            assert!(Instant::now() < until, "not ready again: {error}\n{}", self.server.process().output());
            sleep(LOOK).await;
        }
        client
    }
}

fn job(namespace: &str, queue: &str, input: &str) -> SubmitRun {
    let input = serde_json::value::RawValue::from_string(format!("{input:?}")).unwrap();
    SubmitRun { namespace: namespace.into(), input: Some(input), ..SubmitRun::new(queue, KIND) }
}

async fn submit(client: &Client, namespace: &str, queue: &str, input: &str) -> String {
    let job = job(namespace, queue, input);
    until_answered(|| client.submit(&job)).await.expect("a good run").id
}

async fn register(client: &Client, namespace: &str, queues: Vec<String>) -> String {
    let worker = RegisterWorker {
        namespace: namespace.into(),
        queues,
        types: vec![KIND.into()],
        name: None,
        hostname: None,
        pid: None,
        version: None,
        labels: Default::default(),
        max_concurrent: Some(100),
        instance: None,
    };
    until_answered(|| client.register(&worker)).await.expect("a good worker").worker_id
}

async fn claim(client: &Client, worker: &str, queue: &str) -> Vec<ClaimedRun> {
    let claim = Claim { queue: Some(queue.into()), max: Some(10), ..Claim::default() };
    until_answered(|| client.claim(worker, &claim)).await.expect("a good claim").runs
}

fn outcome(input: &str) -> CompleteRun {
    let output = serde_json::value::RawValue::from_string(format!("{input:?}")).unwrap();
    CompleteRun { run_id: None, lease: String::new(), output: Some(output) }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_asynchronous_standby_has_not_heard_of_is_lost_and_nothing_else() {
    let mut cluster = Cluster::start().await;
    let pid = cluster.server.pid();
    let before = client(&cluster.server.url());
    let kept = submit(&before, "tenant_a", "early", "kept").await;
    let first = register(&before, "tenant_a", vec!["early".into()]).await;
    let second = register(&before, "tenant_a", vec!["early".into()]).await;
    // Everything up to here is there after the failover.
    cluster.primary.wait_until_followed().await;
    cluster.standby.stop_following().await;
    let old = claim(&before, &first, "early").await.remove(0);
    let names: Vec<String> = (0..QUEUES).map(|number| format!("q{number}")).collect();
    let mut lost = Vec::new();
    for name in &names {
        lost.push(submit(&before, "tenant_a", name, "lost").await);
    }
    let after = cluster.fail_over().await;

    // The other tenant's queues come first now, and get the numbers that the lost ones had.
    for name in names.iter().rev() {
        submit(&after, "tenant_b", name, "of b").await;
    }
    for name in &names {
        submit(&after, "tenant_a", name, "of a").await;
    }
    for (namespace, input) in [("tenant_a", "\"of a\""), ("tenant_b", "\"of b\"")] {
        let worker = register(&after, namespace, names.clone()).await;
        for name in &names {
            let got = claim(&after, &worker, name).await;
            let inputs: Vec<_> = got.iter().map(|run| run.input.as_ref().unwrap().get()).collect();
            assert_eq!(inputs, [input], "{namespace} on {name}");
        }
    }
    for id in &lost {
        let gone = after.run(id).await;
        assert!(matches!(&gone, Err(ClientError::Refused { status: 404, .. })), "{gone:?}");
    }

    // The claim of the first worker is lost, and its lease good for nothing, although the next one
    // has the same number.
    let new = claim(&after, &second, "early").await.remove(0);
    assert_eq!((&new.run_id, new.epoch, old.epoch), (&kept, 1, 1));
    assert_ne!(new.lease, old.lease);
    let late = after.complete(&kept, &CompleteRun { lease: old.lease, ..outcome("of the first") }).await;
    assert!(matches!(&late, Err(ClientError::Refused { code, .. }) if code == "lease_lost"), "{late:?}");
    after.complete(&kept, &CompleteRun { lease: new.lease, ..outcome("of the second") }).await.unwrap();
    let ended = after.run(&kept).await.unwrap();
    assert_eq!(ended.output.unwrap().get(), "\"of the second\"");
    assert_eq!(cluster.server.pid(), pid);
    let said = cluster.server.process().output();
    assert!(said.contains("the database is not the one this server began with"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_synchronous_standby_nothing_is_lost() {
    let mut cluster = Cluster::start().await;
    cluster.primary.wait_for_standby().await;
    let before = client(&cluster.server.url());
    let worker = register(&before, "tenant_a", vec!["work".into()]).await;
    let mut all = Vec::new();
    for number in 0..20 {
        all.push(submit(&before, "tenant_a", "work", &number.to_string()).await);
    }
    let held = claim(&before, &worker, "work").await;
    assert_eq!(held.len(), 10);
    let after = cluster.fail_over().await;
    for run in &held {
        let done = CompleteRun { lease: run.lease.clone(), ..outcome("done") };
        until_answered(|| after.complete(&run.run_id, &done)).await.expect("the lease is still good");
    }
    let rest = claim(&after, &worker, "work").await;
    assert_eq!(rest.len(), 10, "the other half is still to be done");
    for id in &all {
        after.run(id).await.unwrap_or_else(|error| panic!("{id} is lost: {error}"));
    }
}
