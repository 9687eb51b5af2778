//! Operations on all runs that a filter finds.

use std::collections::BTreeSet;

use baton_core::bulk::Tally;
use baton_core::{BulkAction, BulkState, RunId, State};
use baton_store::{BulkMade, BulkOperation, BulkProgress, Due, Idempotency, NewBulk, NewRun, Page, RunFilter};

use crate::rig::{Rig, START, contract, error, keyed, run};

contract!(
    an_operation_covers_what_was_submitted_before_it,
    the_same_key_gives_the_same_operation,
    a_namespace_has_so_many_operations_that_go_on,
    of_two_who_write_the_second_changes_nothing,
    one_that_has_ended_changes_no_more,
    one_that_is_to_stop_is_due_at_once_where_nobody_acts,
    those_that_go_on_are_listed_as_they_are_due,
    operations_are_listed_newest_first,
    what_ended_long_ago_is_forgotten,
    of_many_who_write_at_the_same_time_one_does,
    runs_are_found_as_they_are_listed,
    a_workflow_is_retried_once_with_the_same_key,
);

fn new(namespace: Option<&str>) -> NewBulk {
    NewBulk {
        namespace: namespace.map(str::to_owned),
        action: BulkAction::Cancel,
        filter: r#"{"queue":"mail"}"#.into(),
        reason: Some("wrong".into()),
        created_by: "key_1".into(),
        idempotency: None,
        per_second: 100.0,
    }
}

impl Rig {
    async fn bulk(&self, new: NewBulk) -> BulkOperation {
        match self.store.add_bulk(new, 7, 1_000).await.unwrap() {
            BulkMade::New(operation) => operation,
            other => panic!("{other:?}"),
        }
    }

    async fn save(
        &self,
        of: &BulkOperation,
        progress: BulkProgress,
        state: BulkState,
        ms: i64,
    ) -> Option<BulkOperation> {
        self.store.save_bulk(of.id, of.version, &progress, state, ms).await.unwrap()
    }

    async fn end(&self, of: &BulkOperation, state: BulkState) -> BulkOperation {
        self.save(of, of.progress.clone(), state, 0).await.expect("nobody else writes")
    }
}

async fn an_operation_covers_what_was_submitted_before_it(rig: Rig) {
    let lane = rig.lane("ios").await;
    let before = rig.submit_all(vec![run(lane), run(lane)]).await;
    let operation = rig.bulk(new(Some("default"))).await;
    // In the same millisecond.
    let after = rig.submit_all(vec![run(lane), run(lane)]).await;
    let bound = operation.id.as_bound();
    assert!(before.iter().all(|run| *run < bound) && after.iter().all(|run| *run > bound));
    let filter = RunFilter { before: Some(bound), ..RunFilter::default() };
    assert_eq!(rig.store.count_runs(&filter).await.unwrap(), 2);
    assert_eq!(rig.store.bulk(operation.id).await.unwrap(), Some(operation.clone()));
    assert_eq!((operation.state, operation.created_at, operation.due_at), (BulkState::Running, START, START));
    assert_eq!((operation.version, operation.is_stopping, operation.ended_at), (0, false, None));
    assert_eq!(operation.progress.bucket.tokens, 100.0);
    assert_eq!((operation.progress.tally, operation.progress.matched), (Tally::default(), None));
    assert_eq!((operation.filter.as_str(), operation.reason.as_deref()), (r#"{"queue":"mail"}"#, Some("wrong")));
}

async fn the_same_key_gives_the_same_operation(rig: Rig) {
    let once = |body: u8| NewBulk {
        idempotency: Some(Idempotency { key: "default\u{1f}k".into(), fingerprint: [body; 16] }),
        ..new(Some("default"))
    };
    let first = rig.bulk(once(1)).await;
    assert_eq!(
        rig.store.add_bulk(once(1), 8, 1).await.unwrap(),
        BulkMade::Earlier(first.clone()),
        "however many there are"
    );
    assert_eq!(rig.store.add_bulk(once(2), 9, 10).await.unwrap(), BulkMade::KeyReused);
    let ended = rig.end(&first, BulkState::Completed).await;
    assert_eq!(rig.store.add_bulk(once(1), 8, 1).await.unwrap(), BulkMade::Earlier(ended));
}

async fn a_namespace_has_so_many_operations_that_go_on(rig: Rig) {
    let first = rig.bulk(new(Some("default"))).await;
    let add = async |namespace| rig.store.add_bulk(new(namespace), 7, 1).await.unwrap();
    assert_eq!(add(Some("default")).await, BulkMade::TooMany);
    assert!(matches!(add(Some("team")).await, BulkMade::New(_)), "another namespace has its own");
    assert!(matches!(add(None).await, BulkMade::New(_)), "and so have those of all namespaces");
    assert_eq!(add(None).await, BulkMade::TooMany);
    rig.end(&first, BulkState::Stopped).await;
    assert!(matches!(add(Some("default")).await, BulkMade::New(_)));
    // At the same time, too.
    let servers = rig.servers(4).await;
    let adding = servers.iter().map(|store| store.add_bulk(new(Some("crowd")), 7, 2));
    let made = futures_util::future::join_all(adding).await;
    let new = made.iter().filter(|made| matches!(made, Ok(BulkMade::New(_)))).count();
    assert_eq!(new, 2, "{made:?}");
}

async fn of_two_who_write_the_second_changes_nothing(rig: Rig) {
    let seen = rig.bulk(new(None)).await;
    let runs: Vec<RunId> = (0..3).map(|number| RunId::new(START, number, 1)).collect();
    let progress = BulkProgress {
        cursor: Some(runs[0]),
        planned: runs.clone(),
        matched: Some(10),
        tally: Tally { done: 1, skipped: 2, failed: 3 },
        errors: r#"[{"run_id":"r","code":"c","error":"e"}]"#.into(),
        troubles: 2,
        waits_for: Some("room".into()),
        ..seen.progress.clone()
    };
    let saved = rig.save(&seen, progress.clone(), BulkState::Running, 10_000).await.unwrap();
    assert_eq!((saved.version, saved.due_at, &saved.progress), (1, START + 10_000, &progress));
    assert_eq!(rig.save(&seen, seen.progress.clone(), BulkState::Completed, 0).await, None);
    assert_eq!(rig.store.bulk(seen.id).await.unwrap(), Some(saved));
}

async fn one_that_has_ended_changes_no_more(rig: Rig) {
    let operation = rig.bulk(new(None)).await;
    rig.clock.advance(5);
    let ended = rig.end(&operation, BulkState::Completed).await;
    assert_eq!((ended.state, ended.ended_at), (BulkState::Completed, Some(START + 5)));
    assert_eq!(rig.save(&ended, ended.progress.clone(), BulkState::Running, 0).await, None);
    assert_eq!(rig.store.stop_bulk(ended.id).await.unwrap(), Some(ended));
    assert_eq!(rig.store.live_bulks(10).await.unwrap().operations, []);
}

async fn one_that_is_to_stop_is_due_at_once_where_nobody_acts(rig: Rig) {
    let waiting = rig.bulk(new(None)).await;
    let waiting = rig.save(&waiting, waiting.progress.clone(), BulkState::Running, 60_000).await.unwrap();
    let stopped = rig.store.stop_bulk(waiting.id).await.unwrap().unwrap();
    assert_eq!((stopped.is_stopping, stopped.due_at, stopped.state), (true, START, BulkState::Running));
    assert_eq!(stopped.version, waiting.version, "who acts on it now can still write what it did");
    // Whoever has not heard of it puts it off in vain.
    let put_off = rig.save(&waiting, waiting.progress.clone(), BulkState::Running, 60_000).await.unwrap();
    assert_eq!((put_off.is_stopping, put_off.due_at), (true, START));
    let acting = rig.bulk(new(None)).await;
    let planned = BulkProgress { planned: vec![RunId::new(START, 1, 1)], ..acting.progress.clone() };
    let acting = rig.save(&acting, planned, BulkState::Running, 60_000).await.unwrap();
    let stopped = rig.store.stop_bulk(acting.id).await.unwrap().unwrap();
    assert_eq!((stopped.is_stopping, stopped.due_at), (true, START + 60_000));
    assert_eq!(rig.store.stop_bulk(acting.id).await.unwrap(), Some(stopped), "again is harmless");
    assert!(rig.save(&acting, acting.progress.clone(), BulkState::Stopped, 0).await.is_some());
    let nobody = baton_core::BulkId(RunId::new(START, 9, 9).0);
    assert_eq!(rig.store.stop_bulk(nobody).await.unwrap(), None);
    assert_eq!(rig.store.bulk(nobody).await.unwrap(), None);
}

async fn those_that_go_on_are_listed_as_they_are_due(rig: Rig) {
    let empty = rig.store.live_bulks(10).await.unwrap();
    assert_eq!(empty.operations, []);
    let mut all = Vec::new();
    for ms in [3_000, 1_000, 2_000] {
        let operation = rig.bulk(new(None)).await;
        all.push(rig.save(&operation, operation.progress.clone(), BulkState::Running, ms).await.unwrap());
    }
    rig.clock.advance(1_500);
    let live = rig.store.live_bulks(10).await.unwrap();
    assert_eq!(live.now, START + 1_500);
    assert_eq!(live.operations, [all[1].clone(), all[2].clone(), all[0].clone()]);
    assert_eq!(rig.store.live_bulks(1).await.unwrap().operations, [all[1].clone()]);
}

async fn operations_are_listed_newest_first(rig: Rig) {
    let a = rig.bulk(new(Some("a"))).await;
    let b = rig.bulk(new(Some("b"))).await;
    let both = rig.bulk(new(None)).await;
    let a2 = rig.bulk(new(Some("a"))).await;
    let b = rig.end(&b, BulkState::Completed).await;
    let ids = async |namespace, state, after, limit| -> Vec<_> {
        let listed = rig.store.bulks(namespace, state, Page { after, limit }).await.unwrap();
        listed.into_iter().map(|operation| operation.id).collect()
    };
    assert_eq!(ids(None, None, None, 10).await, [a2.id, both.id, b.id, a.id]);
    assert_eq!(ids(None, None, Some(both.id), 1).await, [b.id]);
    assert_eq!(ids(Some("a"), None, None, 10).await, [a2.id, a.id]);
    assert_eq!(ids(None, Some(BulkState::Completed), None, 10).await, [b.id]);
    assert_eq!(ids(Some("b"), Some(BulkState::Running), None, 10).await, []);
}

async fn what_ended_long_ago_is_forgotten(rig: Rig) {
    let live = rig.bulk(new(None)).await;
    let mut ended = Vec::new();
    for _ in 0..3 {
        let operation = rig.bulk(new(None)).await;
        ended.push(rig.end(&operation, BulkState::Failed).await);
        rig.clock.advance(1_000);
    }
    assert_eq!(rig.store.forget_bulks(3_001, 10).await.unwrap(), 0);
    assert_eq!(rig.store.forget_bulks(1_500, 1).await.unwrap(), 1, "the oldest");
    assert_eq!(rig.store.bulk(ended[0].id).await.unwrap(), None);
    assert_eq!(rig.store.forget_bulks(1_500, 10).await.unwrap(), 1);
    assert_eq!(rig.store.bulk(ended[2].id).await.unwrap(), Some(ended[2].clone()));
    assert_eq!(rig.store.forget_bulks(0, 10).await.unwrap(), 1);
    assert_eq!(rig.store.bulk(live.id).await.unwrap(), Some(live));
}

async fn of_many_who_write_at_the_same_time_one_does(rig: Rig) {
    let seen = rig.bulk(new(None)).await;
    let servers = rig.servers(4).await;
    let progress = |done| BulkProgress { tally: Tally { done, ..Tally::default() }, ..seen.progress.clone() };
    let all: Vec<BulkProgress> = (0..8).map(progress).collect();
    let saving = all.iter().zip(servers.iter().cycle());
    let saving = saving.map(|(progress, store)| store.save_bulk(seen.id, 0, progress, BulkState::Running, 0));
    let saved = futures_util::future::join_all(saving).await;
    let saved: Vec<_> = saved.into_iter().filter_map(Result::unwrap).collect();
    assert_eq!(saved.len(), 1);
    assert_eq!(rig.store.bulk(seen.id).await.unwrap().as_ref(), saved.first());
}

async fn runs_are_found_as_they_are_listed(rig: Rig) {
    let (ios, web) = (rig.lane("ios").await, rig.lane_on("mail", "web").await);
    let worker = rig.worker("w").await;
    for number in 0..30 {
        let lane = if number % 3 == 0 { web } else { ios };
        let due = if number % 5 == 0 { Due::After(60_000) } else { Due::Now };
        rig.submit(NewRun { due, ..keyed(lane, if number % 2 == 0 { "even" } else { "odd" }) }).await;
        rig.clock.advance(10);
    }
    let claimed = rig.claim(worker, ios, 9).await;
    let leases: Vec<_> = claimed.iter().map(crate::rig::lease).collect();
    rig.complete(leases[0]).await;
    rig.complete(leases[1]).await;
    for held in &leases[2..4] {
        let fatal = baton_core::Failure { retryable: false, ..error() };
        rig.fail(*held, fatal).await;
    }
    rig.sleep(leases[4], Due::After(5_000)).await;
    rig.cancel(rig.submit(run(web)).await, 0).await;
    let states = |states: &[State]| RunFilter { states: states.to_vec(), ..RunFilter::default() };
    let all = rig.store.runs(&RunFilter::default(), Page { after: None, limit: 100 }).await.unwrap();
    let filters = [
        RunFilter::default(),
        states(&[State::Pending]),
        states(&[State::Sleeping, State::Failed]),
        states(&[State::Assigned, State::Running]),
        states(&[State::Completed, State::Cancelled, State::Failed]),
        states(&State::ALL),
        RunFilter { lanes: Some(vec![web.lane]), ..states(&[State::Pending, State::Cancelled]) },
        RunFilter { lanes: Some(vec![]), ..RunFilter::default() },
        RunFilter { key: Some("odd".into()), ..states(&[State::Pending, State::Assigned, State::Completed]) },
        RunFilter { worker: Some(worker), ..RunFilter::default() },
        RunFilter { since: Some(all[20].id), before: Some(all[3].id), ..RunFilter::default() },
        RunFilter { since: Some(all[20].id), before: Some(all[3].id), ..states(&[State::Pending, State::Failed]) },
    ];
    for filter in filters {
        let listed = rig.store.runs(&filter, Page { after: None, limit: 100 }).await.unwrap();
        let listed: Vec<RunId> = listed.into_iter().map(|run| run.id).collect();
        let mut found = Vec::new();
        loop {
            let page = Page { after: found.last().copied(), limit: 4 };
            let some = rig.store.find_runs(&filter, page).await.unwrap();
            let is_last = some.len() < 4;
            found.extend(some);
            if is_last {
                break;
            }
        }
        assert_eq!(found, listed, "{filter:?}");
        assert_eq!(rig.store.count_runs(&filter).await.unwrap(), found.len() as u64, "{filter:?}");
    }
}

async fn a_workflow_is_retried_once_with_the_same_key(rig: Rig) {
    let lane = rig.lane("flow").await;
    let (_, from) = rig.held(run(lane)).await;
    rig.complete(from).await;
    let idempotency = Some(Idempotency { key: "retry\u{1f}this".into(), fingerprint: [0; 16] });
    let again = NewRun { retry_of: Some(from.run), idempotency, ..run(lane) };
    let servers = rig.servers(4).await;
    let retrying = servers.iter().zip(1..).map(|(store, die)| store.retry_from(from.run, again.clone(), die));
    let retried = futures_util::future::join_all(retrying).await;
    let retried: Vec<_> = retried.into_iter().map(Result::unwrap).collect();
    let runs: BTreeSet<RunId> = retried.iter().map(|submitted| submitted.run).collect();
    assert_eq!((runs.len(), retried.iter().filter(|submitted| submitted.is_new).count()), (1, 1), "{retried:?}");
    assert_eq!(rig.store.count_runs(&RunFilter::default()).await.unwrap(), 2);
    let other = rig.store.retry_from(from.run, NewRun { idempotency: None, ..again }, 9).await.unwrap();
    assert!(other.is_new && !runs.contains(&other.run), "without a key each is another one");
}
