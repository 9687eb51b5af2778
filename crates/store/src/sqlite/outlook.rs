//! What happens now and what comes next, for those who move the clock by hand: they must not move it while something is under way, nor past what comes next.

use baton_core::Millis;
use rusqlite::params;

use super::{SqliteStore, statements};
use crate::StoreResult;

/// What happens now, and what comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outlook {
    /// The time it was read at.
    pub now: Millis,
    /// Something is under way: a worker holds a run, or a loop has something to do.
    pub is_busy: bool,
    /// Runs that can be claimed. They are under way only if somebody wants them.
    pub claimable: u32,
    /// When something becomes due that is not yet.
    pub next: Option<Millis>,
}

impl SqliteStore {
    /// What happens now and what comes next, all at one moment.
    pub async fn outlook(&self) -> StoreResult<Outlook> {
        self.read(|sql| {
            let now = sql.now;
            sql.one(statements::READ_OUTLOOK, params![now, crate::FOR_GOOD], |row| {
                Ok(Outlook { now, is_busy: row.get(0)?, claimable: row.get(1)?, next: row.get(2)? })
            })
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use baton_core::WorkerId;
    use bytes::Bytes;

    use super::*;
    use crate::{
        ClaimRequest, ClaimSlot, Clock, Completion, Due, FOR_GOOD, LaneName, LeaseRef, NewRun, NewWorker, Store,
        Submission, WorkerInfo, Workflows,
    };

    const NOW: Millis = 1_700_000_000_000;

    #[tokio::test]
    async fn it_follows_a_run_from_its_submit_to_its_end() {
        let clock = Clock::manual(NOW);
        let store = SqliteStore::open_in_memory(clock.clone()).unwrap();
        let quiet = Outlook { now: NOW, is_busy: false, claimable: 0, next: None };
        assert_eq!(store.outlook().await.unwrap(), quiet);

        let name = LaneName { namespace: "default".into(), queue: "main".into(), kind: "build".into() };
        let lane = store.lanes(&[name]).await.unwrap()[0];
        let submission = |due| {
            let input = Bytes::from_static(b"{}");
            let (key, affinity, idempotency, options, retry_of, trace) = (None, None, None, None, None, None);
            let run = NewRun { lane, priority: 5, due, key, affinity, idempotency, options, retry_of, trace, input };
            Submission { runs: vec![run], dice: vec![7] }
        };
        store.submit(vec![submission(Due::At(NOW + 5_000)), submission(Due::At(FOR_GOOD))]).await.unwrap();
        let later = Outlook { next: Some(NOW + 5_000), ..quiet };
        assert_eq!(store.outlook().await.unwrap(), later, "what sleeps for good is not waited for");

        clock.advance(5_000);
        let due = Outlook { now: NOW + 5_000, claimable: 1, ..quiet };
        assert_eq!(store.outlook().await.unwrap(), due);

        let worker = WorkerId::from_random(1);
        let (namespace, name, info) = ("default".into(), "w".into(), WorkerInfo::default());
        let new = NewWorker {
            id: worker,
            instance: None,
            namespace,
            name,
            info,
            max_concurrent: 1,
            ttl_ms: 15_000,
            key_id: None,
        };
        store.register(new).await.unwrap();
        let (name, lanes) = ("w".into(), vec![lane.lane]);
        let slot =
            ClaimSlot { worker, name, lanes, room: 1, claim_no: 1, start: true, lease_ms: None, asked_ms_ago: None };
        let answer =
            store.claim(ClaimRequest { queue: lane.queue, slots: vec![slot], limit: 1, die: 7 }).await.unwrap();
        let lease = LeaseRef { run: answer.claimed[0].run, epoch: answer.claimed[0].epoch };
        let held = Outlook { is_busy: true, claimable: 0, ..due };
        assert_eq!(store.outlook().await.unwrap(), held);

        store.set_deadlines(vec![(lease.run, 4_000, false)]).await.unwrap();
        assert_eq!(store.outlook().await.unwrap(), Outlook { next: Some(NOW + 9_000), ..held });
        store.complete(vec![Completion { lease, output: None }]).await.unwrap();
        assert!(!store.outlook().await.unwrap().is_busy);
    }
}
