//! Searching runs for people: what is found, in both directions, and what a list shows of it.

use baton_core::{Failure, IdSuffix, Reason, RunId, State};
use baton_store::{Due, KeyMatch, NewRun, Phase, RunSearch, SearchFrom};

use crate::rig::{Rig, START, contract, error, keyed, lease, run};

contract!(
    a_search_finds_what_a_scan_finds,
    pages_of_a_search_meet_in_both_directions,
    keys_are_found_whole_and_by_how_they_begin,
    messages_are_found_whatever_their_case,
    phases_are_counted,
    a_list_shows_lease_output_and_error,
    positions_of_many_are_those_of_each,
);

/// Runs of every phase and two lanes, oldest first.
async fn of_all_phases(rig: &Rig) -> Vec<RunId> {
    let (ios, android) = (rig.lane("ios").await, rig.lane("android").await);
    let worker = rig.worker("a").await;
    let mut ids = Vec::new();
    for lane in [ios, android] {
        for number in 0..8 {
            rig.clock.advance(1_000);
            let due = if number == 7 { Due::At(START + 10_000_000) } else { Due::Now };
            ids.push(rig.submit(NewRun { due, ..run(lane) }).await);
        }
        // The first six: assigned, running, cancelling, completed, failed, sleeping; the seventh stays, the eighth is due later.
        let held: Vec<_> = rig.claim(worker, lane, 6).await.iter().map(lease).collect();
        for one in &held[1..] {
            rig.start(*one).await;
        }
        rig.cancel(held[2].run, 60_000).await;
        rig.complete(held[3]).await;
        let rejected = Failure { reason: Reason::Rejected, message: "Provider gave NO answer".into(), ..error() };
        rig.fail(held[4], rejected).await;
        rig.sleep(held[5], Due::At(START + 20_000_000)).await;
    }
    rig.cancel(ids[6], 0).await;
    ids
}

fn now(rig: &Rig) -> RunSearch {
    RunSearch { now: rig.now(), ..RunSearch::default() }
}

async fn found(rig: &Rig, search: &RunSearch, from: SearchFrom, limit: usize) -> Vec<RunId> {
    let found = rig.store.search_runs(search, from, limit).await.unwrap();
    assert_eq!(found.looked_to, None, "{search:?}");
    found.runs
}

async fn a_search_finds_what_a_scan_finds(rig: Rig) {
    let ids = of_all_phases(&rig).await;
    let records = rig.store.listed_runs(&ids).await.unwrap();
    assert_eq!(records.iter().map(|one| one.record.id).collect::<Vec<_>>(), ids);
    let ios = records[0].record.lane;
    let worker = records[0].record.worker;
    let mut sets: Vec<Vec<Phase>> = Phase::ALL.iter().map(|phase| vec![*phase]).collect();
    sets.extend([vec![], vec![Phase::Starting, Phase::Running], vec![Phase::Failed, Phase::Cancelled]]);
    sets.extend([vec![Phase::Waiting, Phase::Completed], vec![Phase::Waiting, Phase::Later, Phase::Sleeping]]);
    for phases in sets {
        for lanes in [None, Some(vec![ios]), Some(vec![])] {
            for workers in [None, worker.map(|worker| vec![worker])] {
                for (since, before) in [(None, None), (Some(ids[2]), Some(ids[13]))] {
                    let search = RunSearch {
                        phases: phases.clone(),
                        lanes: lanes.clone(),
                        workers: workers.clone(),
                        since,
                        before,
                        ..now(&rig)
                    };
                    let mut expected: Vec<RunId> = records
                        .iter()
                        .map(|one| &one.record)
                        .filter(|record| {
                            let phase = Phase::of(record, search.now);
                            (phases.is_empty() || phases.contains(&phase))
                                && lanes.as_ref().is_none_or(|lanes| lanes.contains(&record.lane))
                                && workers
                                    .as_ref()
                                    .is_none_or(|ids| record.worker.is_some_and(|own| ids.contains(&own)))
                                && since.is_none_or(|since| record.id >= since)
                                && before.is_none_or(|before| record.id < before)
                        })
                        .map(|record| record.id)
                        .collect();
                    expected.reverse();
                    assert_eq!(found(&rig, &search, SearchFrom::Newest, 50).await, expected, "{search:?}");
                }
            }
        }
    }
}

async fn pages_of_a_search_meet_in_both_directions(rig: Rig) {
    let mut all = of_all_phases(&rig).await;
    all.reverse();
    let search = now(&rig);
    assert_eq!(found(&rig, &search, SearchFrom::Newest, 5).await, all[..5]);
    assert_eq!(found(&rig, &search, SearchFrom::Older(all[4]), 5).await, all[5..10]);
    assert_eq!(found(&rig, &search, SearchFrom::Newer(all[10]), 5).await, all[5..10], "newest first in any direction");
    assert_eq!(found(&rig, &search, SearchFrom::Newer(all[0]), 5).await, []);
    let record = rig.record(all[0]).await;
    let of_lane = RunSearch { lanes: Some(vec![record.lane]), ..search.clone() };
    let own = found(&rig, &of_lane, SearchFrom::Newest, 50).await;
    assert_eq!(own.len(), 8);
    assert_eq!(found(&rig, &of_lane, SearchFrom::Newer(own[3]), 2).await, own[1..3]);
    let live = RunSearch { phases: vec![Phase::Waiting, Phase::Later], ..search };
    let own = found(&rig, &live, SearchFrom::Newest, 50).await;
    assert_eq!(found(&rig, &live, SearchFrom::Newer(own[2]), 50).await, own[..2]);
}

async fn keys_are_found_whole_and_by_how_they_begin(rig: Rig) {
    let lane = rig.lane("ios").await;
    let keys = ["order-2", "order-20", "order-2a", "order-3", "Order-2", "ordör", "%", "order_2"];
    let mut ids = Vec::new();
    for key in keys {
        ids.push(rig.submit(keyed(lane, key)).await);
    }
    rig.submit(run(lane)).await;
    let find =
        async |key: KeyMatch| found(&rig, &RunSearch { key: Some(key), ..now(&rig) }, SearchFrom::Newest, 50).await;
    assert_eq!(find(KeyMatch::Exactly("order-2".into())).await, [ids[0]]);
    assert_eq!(find(KeyMatch::Exactly("order-".into())).await, []);
    assert_eq!(find(KeyMatch::Prefix("order-2".into())).await, [ids[2], ids[1], ids[0]]);
    assert_eq!(find(KeyMatch::Prefix("ordö".into())).await, [ids[5]]);
    assert_eq!(find(KeyMatch::Prefix("%".into())).await, [ids[6]]);
    assert_eq!(find(KeyMatch::Prefix("".into())).await.len(), keys.len());
    rig.cancel(ids[1], 0).await;
    let cancelled =
        RunSearch { key: Some(KeyMatch::Prefix("order".into())), phases: vec![Phase::Cancelled], ..now(&rig) };
    assert_eq!(found(&rig, &cancelled, SearchFrom::Newest, 50).await, [ids[1]]);
    let end = ids[3].to_string();
    let by_end = RunSearch { id_suffix: IdSuffix::parse(&end[end.len() - 6..]), ..now(&rig) };
    assert_eq!(found(&rig, &by_end, SearchFrom::Newest, 50).await, [ids[3]]);
}

async fn messages_are_found_whatever_their_case(rig: Rig) {
    let ids = of_all_phases(&rig).await;
    let find = async |error: &str, phases: Vec<Phase>| {
        let search = RunSearch { error: Some(error.into()), phases, ..now(&rig) };
        found(&rig, &search, SearchFrom::Newest, 50).await
    };
    assert_eq!(find("no ANSWER", vec![]).await, [ids[12], ids[4]]);
    assert_eq!(find("no answer", vec![Phase::Cancelled]).await, []);
    assert_eq!(find("no answer", vec![Phase::Waiting]).await, []);
    assert_eq!(find("no_answer", vec![]).await, []);
    let rejected = RunSearch { reason: Some(Reason::Rejected), ..now(&rig) };
    assert_eq!(found(&rig, &rejected, SearchFrom::Newest, 50).await, [ids[12], ids[4]]);
}

async fn phases_are_counted(rig: Rig) {
    let ids = of_all_phases(&rig).await;
    let counts = rig.store.count_phases(&now(&rig), 100).await.unwrap();
    // waiting, later, starting, running, cancelling, sleeping, completed, failed, cancelled
    assert_eq!(counts.counts, [1, 2, 2, 2, 2, 2, 2, 2, 1]);
    assert!(!counts.is_capped.contains(&true));
    let lane = rig.record(ids[0]).await.lane;
    let of_lane = RunSearch { lanes: Some(vec![lane]), ..now(&rig) };
    assert_eq!(rig.store.count_phases(&of_lane, 100).await.unwrap().counts, [0, 1, 1, 1, 1, 1, 1, 1, 1]);
    let with_error = RunSearch { error: Some("answer".into()), ..now(&rig) };
    assert_eq!(rig.store.count_phases(&with_error, 100).await.unwrap().counts, [0, 0, 0, 0, 0, 0, 0, 2, 0]);
    let capped = rig.store.count_phases(&now(&rig), 2).await.unwrap();
    assert_eq!(capped.is_capped, [false, false, false, false, false, false, true, true, true]);
    let mut lanes = rig.store.count_lanes(&[lane], rig.now()).await.unwrap();
    lanes.sort_by_key(|(_, phase, _)| *phase);
    let live = [Phase::Later, Phase::Starting, Phase::Running, Phase::Cancelling, Phase::Sleeping];
    assert_eq!(lanes, live.map(|phase| (lane, phase, 1)));
}

async fn a_list_shows_lease_output_and_error(rig: Rig) {
    let ids = of_all_phases(&rig).await;
    let listed = rig.store.listed_runs(&[ids[4], ids[1], ids[3], RunId::new(1, 2, 3)]).await.unwrap();
    assert_eq!(listed.iter().map(|one| one.record.id).collect::<Vec<_>>(), [ids[4], ids[1], ids[3]]);
    assert_eq!(listed[0].record.error.as_deref(), Some("Provider gave NO answer"));
    assert_eq!((listed[0].lease, listed[0].worker_name.as_deref()), (None, Some("a")));
    let lease = listed[1].lease.expect("a worker holds it");
    assert!(lease.until > lease.seen_at && lease.ttl_ms > 0, "{lease:?}");
    assert_eq!(listed[1].record, rig.record(ids[1]).await.without_payloads());
    assert_eq!(listed[2].record.state, State::Completed);
    let output = rig.record(ids[3]).await.output;
    assert_eq!(listed[2].output, output);
    assert_eq!(listed[2].output_bytes, output.map_or(0, |output| output.len() as u64));
    assert_eq!((listed[2].files, listed[2].steps, listed[2].waits_for.clone()), ((0, 0), 0, None));
}

async fn positions_of_many_are_those_of_each(rig: Rig) {
    let lane = rig.lane("ios").await;
    let ids = rig.submit_all((0..5).map(|_| run(lane)).collect()).await;
    let mut expected = Vec::new();
    for id in &ids {
        expected.extend(rig.store.position(*id, 3).await.unwrap().map(|before| (*id, before)));
    }
    let mut positions = rig.store.positions(&ids, 3).await.unwrap();
    positions.sort_unstable();
    assert_eq!(positions, expected);
    assert_eq!(positions.iter().map(|(_, before)| *before).collect::<Vec<_>>(), [0, 1, 2, 3, 3]);
}

/// A record as lists have it.
trait Listed {
    fn without_payloads(self) -> Self;
}

impl Listed for baton_store::RunRecord {
    fn without_payloads(self) -> Self {
        baton_store::RunRecord { input: Default::default(), output: None, ..self }
    }
}
