//! Callers that hang up while their call is at the store. What was committed has its effects all the same.

use baton::proto::Claim;
use baton_core::State;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio_postgres::NoTls;

use crate::harness::{KEY, LONG_MS, On, Server, eventually, soon};

/// Somebody else's transaction on the server's database, which makes every writer of a table wait.
struct Lock {
    client: tokio_postgres::Client,
}

impl Lock {
    async fn on(server: &Server, table: &str) -> Lock {
        let url = server.settings.database_url.as_deref().unwrap();
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(&format!("begin; lock table {table} in exclusive mode")).await.unwrap();
        Lock { client }
    }

    /// Waits until somebody stands behind the lock.
    async fn is_waited_for(&self) {
        eventually("the call is at the store", async || {
            let sql = "select count(*) from pg_locks where not granted and database = \
                       (select oid from pg_database where datname = current_database())";
            self.client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) > 0
        })
        .await;
    }

    async fn release(self) {
        self.client.batch_execute("commit").await.unwrap();
    }
}

/// Sends a call, hangs up while it waits behind a lock on this table, and lets it through then.
async fn hang_up(server: &Server, table: &str, path: &str, body: &str) {
    let lock = Lock::on(server, table).await;
    let connections = server.app.metrics.connections.get();
    let mut stream = server.connect().await;
    let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {KEY}\r\n");
    stream.write_all(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes()).await.unwrap();
    lock.is_waited_for().await;
    drop(stream);
    eventually("the server has noticed", async || server.app.metrics.connections.get() == connections).await;
    lock.release().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submit_still_wakes_who_waits() {
    let server = Server::start(On::Postgres).await;
    let worker = server.worker("one").await;
    let poll = server.parked(&worker).await;
    hang_up(&server, "runs", "/api/v1/runs", r#"{"queue":"builds","type":"ios"}"#).await;
    assert_eq!(soon(poll).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_give_back_still_wakes_who_waits() {
    let server = Server::start(On::Postgres).await;
    let (_, claimed) = server.held().await;
    let other = server.worker("other").await;
    let poll = server.parked(&other).await;
    let path = format!("/api/v1/runs/{}/give_back", claimed.run_id);
    hang_up(&server, "live", &path, &json!({"lease": claimed.lease}).to_string()).await;
    assert_eq!(soon(poll).await[0].run_id, claimed.run_id);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_administrators_act_is_still_written_down() {
    let server = Server::start(On::Postgres).await;
    server.submit().await;
    hang_up(&server, "queues", "/api/v1/queues/builds/pause", "{}").await;
    eventually("the queue is paused", async || server.client.queue("default", "builds").await.unwrap().paused).await;
    eventually("it is written down", async || {
        let lines = server.client.audit_log(None, None).await.unwrap().lines;
        lines.iter().any(|line| line.action == "queue.pause")
    })
    .await;
}

/// A claim is the exception: nobody is left to work on what it brings, so the run goes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_gives_its_run_back() {
    let server = Server::start(On::Postgres).await;
    let run = server.submit().await;
    let (gone, alive) = (server.worker("gone").await, server.worker("alive").await);
    let path = format!("/api/v1/workers/{gone}/claim");
    hang_up(&server, "live", &path, &json!({"wait_ms": LONG_MS}).to_string()).await;
    let claim = Claim { wait_ms: Some(LONG_MS), ..Claim::default() };
    assert_eq!(server.claims(&alive, &claim).await[0].run_id, run);
    assert_eq!(server.state(&run).await, State::Assigned);
}
