//! Several servers on one store.

use baton_proto::v1;
use baton_proto::v1::{MessageKind, RunState};
use baton_store::Clock;

use crate::harness::{Server, eventually};
use crate::rig::{Rig, hello};

/// Two servers that share a database, on the same clock.
async fn two() -> (Rig, Rig, baton_testkit::Database) {
    let (database, clock) = (baton_testkit::database().await, Clock::Real);
    let one = Server::on_database(database.url(), clock.clone()).await;
    let other = Server::on_database(database.url(), clock).await;
    (Rig::of(one), Rig::of(other), database)
}

mod postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn messages_reach_a_stream_at_another_server() {
        let (mut here, mut there, _database) = two().await;
        let (mut stream, _) = there.work(hello()).await;
        stream.grant(1).await;
        let id = here.begin().await;
        assert_eq!(stream.run().await.run_id, id);
        here.signal(&id, "go", "1").await;
        assert_eq!(stream.messages().await.messages[0].name, "go");
        here.client.cancel_workflow_run(v1::CancelWorkflowRunRequest { run_id: id, grace: None }).await.unwrap();
        assert_eq!(stream.messages().await.messages[0].kind(), MessageKind::Cancel);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_stream_goes_on_at_another_server() {
        let (mut here, mut there, _database) = two().await;
        let (mut stream, registered) = here.work(hello()).await;
        stream.grant(1).await;
        let id = here.begin().await;
        let run = stream.run().await;
        drop(stream);
        let lease = v1::RunLease { run_id: id.clone(), lease: run.lease.clone() };
        let again = v1::Hello { worker_id: registered.worker_id.clone(), leases: vec![lease], ..hello() };
        let (_stream, resumed) = there.work(again).await;
        assert_eq!(resumed.worker_id, registered.worker_id);
        there.complete(&run, "1").await;
        let mut reader = here.client.clone();
        eventually("it is completed for both", async || {
            let get = v1::GetWorkflowRunRequest { run_id: id.clone() };
            reader.get_workflow_run(get).await.unwrap().into_inner().state() == RunState::Completed
        })
        .await;
    }
}
