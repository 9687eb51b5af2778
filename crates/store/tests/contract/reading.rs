//! Reading: lists, filters, pages, the clock.

use baton_core::machine::Options;
use baton_core::{IdSuffix, RunId, State};
use baton_store::{Completion, Due, NewRun, Page, RunFilter};

use crate::rig::{Rig, START, contract, error, keyed, lease, run};

contract!(
    runs_are_found_by_several_states_and_by_their_time,
    runs_are_found_by_the_last_digits_of_their_identifier,
    pages_have_no_gaps_and_no_repeats,
    runs_are_filtered,
    every_state_can_be_listed,
    a_list_tells_all_but_payloads,
    what_is_not_there_is_not_found,
    the_clock_is_the_stores,
    statements_are_counted,
    the_first_storage_is_the_one_that_is_marked,
);

async fn runs_are_found_by_several_states_and_by_their_time(rig: Rig) {
    let lane = rig.lane("ios").await;
    let mut ids = Vec::new();
    for _ in 0..6 {
        ids.push(rig.submit(run(lane)).await);
        rig.clock.advance(1_000);
    }
    let worker = rig.worker("a").await;
    let held: Vec<_> = rig.claim(worker, lane, 4).await.iter().map(lease).collect();
    rig.start(held[1]).await;
    rig.complete(held[2]).await;
    rig.store.cancel(vec![ids[4]], 1_000).await.unwrap();
    let find = async |filter: RunFilter| {
        let found = rig.store.runs(&filter, Page { after: None, limit: 10 }).await.unwrap();
        assert_eq!(rig.store.count_runs(&filter).await.unwrap(), found.len() as u64, "{filter:?}");
        found.iter().rev().map(|one| one.id).collect::<Vec<_>>()
    };
    let inside = |states: &[State]| RunFilter { states: states.to_vec(), ..RunFilter::default() };
    // The oldest four are claimed in their order.
    assert_eq!(find(inside(&[State::Assigned, State::Running])).await, [ids[0], ids[1], ids[3]]);
    assert_eq!(find(inside(&[State::Pending, State::Running])).await, [ids[1], ids[5]]);
    assert_eq!(find(inside(&[State::Pending, State::Completed, State::Pending])).await, [ids[2], ids[5]]);
    assert_eq!(find(inside(&[State::Failed, State::Cancelled])).await, [ids[4]]);
    assert_eq!(find(inside(&State::ALL)).await, ids);
    let (second, fifth) = (RunId::floor(START + 1_000), RunId::floor(START + 4_000));
    for states in [vec![], State::ALL.to_vec(), vec![State::Assigned, State::Running, State::Completed]] {
        let filter = RunFilter { states, since: Some(second), before: Some(fifth), ..RunFilter::default() };
        assert_eq!(find(filter).await, ids[1..4]);
    }
    let lanes = Some(vec![lane.lane]);
    assert_eq!(find(RunFilter { lanes: lanes.clone(), since: Some(fifth), ..RunFilter::default() }).await, ids[4..]);
    assert_eq!(find(RunFilter { lanes, before: Some(second), ..RunFilter::default() }).await, ids[..1]);
    // A page begins where the one before ended, inside the range.
    let filter = RunFilter { before: Some(fifth), ..inside(&[State::Assigned, State::Running, State::Completed]) };
    let page = rig.store.runs(&filter, Page { after: Some(ids[3]), limit: 2 }).await.unwrap();
    assert_eq!(page.iter().map(|one| one.id).collect::<Vec<_>>(), [ids[2], ids[1]]);
}

async fn runs_are_found_by_the_last_digits_of_their_identifier(rig: Rig) {
    let (ios, android) = (rig.lane("ios").await, rig.lane("android").await);
    let ids = rig.submit_all(vec![run(ios), run(android), run(ios)]).await;
    let find = async |digits: &str, filter: RunFilter| {
        let filter = RunFilter { id_suffix: IdSuffix::parse(digits), ..filter };
        let found = rig.store.runs(&filter, Page { after: None, limit: 10 }).await.unwrap();
        assert_eq!(rig.store.count_runs(&filter).await.unwrap(), found.len() as u64);
        found.iter().map(|one| one.id).collect::<Vec<_>>()
    };
    for id in &ids {
        let text = id.to_string();
        for digits in [12, 6] {
            assert_eq!(find(&text[text.len() - digits..], RunFilter::default()).await, [*id], "{digits} of {text}");
        }
        assert_eq!(find(&text[text.len() - 8..].to_uppercase(), RunFilter::default()).await, [*id]);
    }
    let end = |id: RunId| id.to_string()[24..].to_owned();
    let of = |lane: baton_store::Lane| RunFilter { lanes: Some(vec![lane.lane]), ..RunFilter::default() };
    assert_eq!(find(&end(ids[1]), of(android)).await, [ids[1]]);
    assert_eq!(find(&end(ids[1]), of(ios)).await, []);
    let completed = RunFilter { states: vec![State::Completed], ..RunFilter::default() };
    assert_eq!(find(&end(ids[0]), completed).await, []);
    assert_eq!(find(&end(ids[0]), RunFilter { before: Some(ids[0]), ..RunFilter::default() }).await, []);
    assert_eq!(IdSuffix::parse("abc"), None, "too few");
    assert_eq!(IdSuffix::parse("0123456789abc"), None, "too many");
    assert_eq!(IdSuffix::parse("wxyz"), None, "no digits");
}

async fn pages_have_no_gaps_and_no_repeats(rig: Rig) {
    let lane = rig.lane("ios").await;
    let other = rig.lane("android").await;
    let mut before = Vec::new();
    for index in 0..25 {
        before.push(rig.submit(run(if index % 4 == 0 { other } else { lane })).await);
        rig.clock.advance(i64::from(index % 3 == 0));
    }
    let worker = rig.worker("a").await;
    let filters = [
        RunFilter::default(),
        RunFilter { lanes: Some(vec![lane.lane, other.lane]), ..RunFilter::default() },
        RunFilter { states: vec![State::Completed], ..RunFilter::default() },
    ];
    for one in rig.claim(worker, lane, 8).await {
        rig.complete(lease(&one)).await;
    }
    for filter in filters {
        let all = rig.store.runs(&filter, Page { after: None, limit: 1_000 }).await.unwrap();
        let expected: Vec<_> = all.iter().map(|record| record.id).collect();
        assert!(expected.is_sorted_by(|left, right| left > right), "newest first");
        assert_eq!(rig.store.count_runs(&filter).await.unwrap(), expected.len() as u64);
        let (mut got, mut after) = (Vec::new(), None);
        loop {
            let page = rig.store.runs(&filter, Page { after, limit: 4 }).await.unwrap();
            assert!(page.len() <= 4);
            got.extend(page.iter().map(|record| record.id));
            let Some(last) = page.last() else { break };
            after = Some(last.id);
            // What is submitted meanwhile is newer and comes on no later page.
            rig.submit(run(lane)).await;
        }
        assert_eq!(got, expected, "{filter:?}");
    }
    let newest = rig.store.runs(&RunFilter::default(), Page { after: None, limit: 1 }).await.unwrap();
    assert!(newest[0].id > before[24]);
}

async fn runs_are_filtered(rig: Rig) {
    let (ios, android) = (rig.lane("ios").await, rig.lane("android").await);
    let runs = vec![run(ios), keyed(ios, "k"), run(android), keyed(android, "k"), keyed(ios, "l")];
    let ids = rig.submit_all(runs).await;
    let (first, second) = (rig.worker("a").await, rig.worker("b").await);
    let held = rig.claim(first, ios, 2).await;
    rig.complete(lease(&held[0])).await;
    let taken = rig.claim(second, android, 1).await;
    let find = |filter: RunFilter| {
        let store = rig.store.clone();
        async move {
            let mut found: Vec<RunId> =
                store.runs(&filter, Page { after: None, limit: 10 }).await.unwrap().iter().map(|one| one.id).collect();
            assert_eq!(store.count_runs(&filter).await.unwrap(), found.len() as u64, "{filter:?}");
            found.reverse();
            found
        }
    };
    let lanes = |lanes: &[baton_store::Lane]| Some(lanes.iter().map(|lane| lane.lane).collect());
    let none = RunFilter::default;
    assert_eq!(find(none()).await, ids);
    assert_eq!(find(RunFilter { lanes: lanes(&[android]), ..none() }).await, [ids[2], ids[3]]);
    assert_eq!(find(RunFilter { lanes: lanes(&[]), ..none() }).await, []);
    assert_eq!(find(RunFilter { key: Some("k".into()), ..none() }).await, [ids[1], ids[3]]);
    assert_eq!(find(RunFilter { key: Some("k".into()), lanes: lanes(&[ios]), ..none() }).await, [ids[1]]);
    let mut of_first = vec![held[0].run, held[1].run];
    of_first.sort();
    assert_eq!(find(RunFilter { worker: Some(first), ..none() }).await, of_first, "held now, or at its end");
    let held_now = RunFilter { worker: Some(first), states: vec![State::Assigned], ..none() };
    assert_eq!(find(held_now).await, [held[1].run]);
    let completed = RunFilter { worker: Some(first), states: vec![State::Completed], ..none() };
    assert_eq!(find(completed).await, [held[0].run]);
    assert_eq!(find(RunFilter { worker: Some(second), lanes: lanes(&[android]), ..none() }).await, [taken[0].run]);
    assert_eq!(find(RunFilter { worker: Some(second), lanes: lanes(&[ios]), ..none() }).await, []);
}

async fn every_state_can_be_listed(rig: Rig) {
    let lane = rig.lane("ios").await;
    let ids = rig.submit_all(vec![run(lane); 8]).await;
    let worker = rig.worker("a").await;
    let held: Vec<_> = rig.claim(worker, lane, 6).await.iter().map(lease).collect();
    rig.start(held[1]).await;
    rig.sleep(held[2], Due::After(1_000)).await;
    rig.complete(held[3]).await;
    rig.fail(held[4], baton_core::Failure { retryable: false, ..error() }).await;
    rig.fail(held[5], error()).await;
    rig.cancel(ids[7], 0).await;
    let expected = [
        (State::Pending, vec![ids[6], ids[5]]),
        (State::Assigned, vec![ids[0]]),
        (State::Running, vec![ids[1]]),
        (State::Sleeping, vec![ids[2]]),
        (State::Completed, vec![ids[3]]),
        (State::Failed, vec![ids[4]]),
        (State::Cancelled, vec![ids[7]]),
    ];
    for (state, expected) in expected {
        let filter = RunFilter { states: vec![state], ..RunFilter::default() };
        let page = rig.store.runs(&filter, Page { after: None, limit: 10 }).await.unwrap();
        assert!(page.iter().all(|record| record.state == state));
        assert_eq!(page.iter().map(|record| record.id).collect::<Vec<_>>(), expected, "{}", state.as_str());
        assert_eq!(rig.store.count_runs(&filter).await.unwrap(), expected.len() as u64, "{}", state.as_str());
    }
}

async fn a_list_tells_all_but_payloads(rig: Rig) {
    let lane = rig.lane("ios").await;
    let options = Some(Options { timeout_ms: Some(5_000), ..Options::default() });
    let (_, done) =
        rig.held(NewRun { options: options.clone(), affinity: Some("app".into()), ..keyed(lane, "k") }).await;
    rig.start(done).await;
    rig.clock.advance(10);
    rig.store.complete(vec![Completion { lease: done, output: Some("out".into()) }]).await.unwrap();
    let (_, failed) = rig.held(run(lane)).await;
    rig.fail(failed, baton_core::Failure { retryable: false, ..error() }).await;
    let (_, retried) = rig.held(run(lane)).await;
    rig.fail(retried, error()).await;
    let (_, held) = rig.held(NewRun { options, ..run(lane) }).await;
    rig.cancel(held.run, 1_000).await;
    let waiting = rig.submit(NewRun { due: Due::After(70), ..run(lane) }).await;
    let mut records = Vec::new();
    for id in [waiting, held.run, retried.run, failed.run, done.run] {
        let mut record = rig.record(id).await;
        assert!(!record.input.is_empty());
        (record.input, record.output) = Default::default();
        records.push(record);
    }
    assert_eq!(records[2].error.as_deref(), Some("it broke"), "a live run tells how its last attempt ended");
    assert_eq!(rig.store.runs(&RunFilter::default(), Page { after: None, limit: 10 }).await.unwrap(), records);
    for record in records {
        let filter = RunFilter { states: vec![record.state], ..RunFilter::default() };
        let page = rig.store.runs(&filter, Page { after: None, limit: 10 }).await.unwrap();
        assert!(page.contains(&record), "{} is listed otherwise by its state", record.state.as_str());
    }
}

async fn what_is_not_there_is_not_found(rig: Rig) {
    let nobody = RunId::new(START, 5, 5);
    assert_eq!(rig.store.run(nobody).await.unwrap(), None);
    assert_eq!(rig.store.attempts(nobody).await.unwrap(), []);
    assert_eq!(rig.store.lease_end(crate::rig::lease_of(nobody, 1)).await.unwrap(), None);
    assert_eq!(rig.store.runs(&RunFilter::default(), Page { after: None, limit: 5 }).await.unwrap(), []);
    assert_eq!(rig.store.count_runs(&RunFilter::default()).await.unwrap(), 0);
}

async fn the_clock_is_the_stores(rig: Rig) {
    assert_eq!(rig.store.now().await.unwrap(), START);
    rig.clock.advance(7);
    assert_eq!(rig.store.now().await.unwrap(), START + 7);
    assert_eq!(rig.store.clock().fixed(), Some(START + 7));
}

async fn statements_are_counted(rig: Rig) {
    let lane = rig.lane("ios").await;
    let before = rig.store.statements();
    rig.submit(run(lane)).await;
    let after = rig.store.statements();
    assert!(after > before);
    assert_eq!(rig.store.statements(), after, "asking costs none");
}

async fn the_first_storage_is_the_one_that_is_marked(rig: Rig) {
    let servers = rig.servers(2).await;
    assert_eq!(servers[0].storage_mark([1; 16]).await.unwrap(), [1; 16]);
    assert_eq!(servers[1].storage_mark([2; 16]).await.unwrap(), [1; 16], "the other server has another storage");
    let rig = rig.reopen().await;
    assert_eq!(rig.store.storage_mark([1; 16]).await.unwrap(), [1; 16]);
    rig.store.set_storage_mark([2; 16]).await.unwrap();
    assert_eq!(rig.store.storage_mark([1; 16]).await.unwrap(), [2; 16]);
}
