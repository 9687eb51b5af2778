//! Several servers on one pool: whoever races, no runner is handed out twice, and nothing that is in use is ended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_core::pools::{Cause, Limits, RunnerState};
use baton_store::{CommitAnswer, EndClaimAnswer, OpenAnswer, PoolClaim, RunnerAnswer, RunnerEnd, TakenRunner};
use tokio::task::JoinSet;

use crate::pools_rig::{PoolRig, RELEASE_MS, new_claim, rules, say};
use crate::rig::{Rig, contract};

contract!(
    fifty_claimers_race_for_twenty_runners,
    one_claim_is_opened_and_filled_by_many_servers,
    claims_and_removals_never_share_a_runner,
    claims_that_end_while_runners_are_taken_lose_none,
    terminations_and_orders_are_handed_to_one_server_each,
);

const ROUNDS: usize = 8;

async fn fifty_claimers_race_for_twenty_runners(rig: Rig) {
    let pool = PoolRig::new(rig, 20).await;
    pool.idle(20).await;
    let servers = pool.rig.servers(4).await;
    for round in 0..ROUNDS {
        pool.beat_all().await;
        let mut racing = JoinSet::new();
        for (number, server) in servers.iter().cycle().take(50).cloned().enumerate() {
            let claim = new_claim(pool.number(), &format!("{round}/{number}"), 1);
            racing.spawn(async move {
                let OpenAnswer::Opened(claim) = server.open_claim(claim).await.unwrap() else { panic!("not new") };
                (claim.clone(), server.take_runners(claim.pool, rules()).await.unwrap().taken)
            });
        }
        let raced: Vec<(PoolClaim, Vec<TakenRunner>)> = racing.join_all().await;
        let taken: Vec<&TakenRunner> = raced.iter().flat_map(|(_, taken)| taken).collect();
        let runners: BTreeSet<_> = taken.iter().map(|one| one.runner.runner).collect();
        let claims: BTreeSet<_> = taken.iter().map(|one| one.claim).collect();
        assert_eq!((taken.len(), runners.len(), claims.len()), (20, 20, 20), "round {round}: one each");
        let held = pool.runners_in(RunnerState::Claimed).await;
        let owners: BTreeMap<_, _> = held.iter().map(|runner| (runner.id, runner.rules.owner)).collect();
        assert!(taken.iter().all(|one| owners.get(&one.runner.runner) == Some(&Some(one.claim))));

        let owned: Vec<TakenRunner> = taken.into_iter().cloned().collect();
        pool.register(&owned).await;
        let mut ending = JoinSet::new();
        for ((claim, _), server) in raced.into_iter().zip(servers.iter().cycle().cloned()) {
            ending.spawn(async move {
                let filled = server.commit_claim(claim.number, Limits::default()).await.unwrap();
                let ended = server.release_claim(claim.number, RELEASE_MS).await.unwrap();
                let EndClaimAnswer::Ended(claim, runners) = ended else { panic!("not ended: {ended:?}") };
                assert_eq!(matches!(filled, CommitAnswer::Ready(_)), runners.len() == 1);
                (claim.run_id, runners)
            });
        }
        for (run_id, runners) in ending.join_all().await {
            pool.deregister(&runners, &run_id).await;
        }
        assert_eq!(pool.count_in(RunnerState::Idle).await, 20, "round {round}: all came back");
    }
}

async fn one_claim_is_opened_and_filled_by_many_servers(rig: Rig) {
    let pool = PoolRig::new(rig, 10).await;
    pool.idle(6).await;
    let servers = pool.rig.servers(4).await;
    let mut opening = JoinSet::new();
    for server in servers.iter().cycle().take(12) {
        let (server, claim) = (Arc::clone(server), new_claim(pool.number(), "one", 4));
        opening.spawn(async move {
            let opened = server.open_claim(claim.clone()).await.unwrap();
            (opened, server.take_runners(claim.pool, rules()).await.unwrap().taken)
        });
    }
    let answers = opening.join_all().await;
    assert_eq!(answers.iter().filter(|(opened, _)| matches!(opened, OpenAnswer::Opened(_))).count(), 1);
    let numbers: BTreeSet<_> = answers
        .iter()
        .map(|(opened, _)| match opened {
            OpenAnswer::Opened(claim) | OpenAnswer::Known(claim) => claim.number,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(numbers.len(), 1);
    let claim = *numbers.first().unwrap();
    let taken: Vec<_> = answers.into_iter().flat_map(|(_, taken)| taken).collect();
    assert_eq!((taken.len(), pool.count_in(RunnerState::Claimed).await), (4, 4));
    let mut filling = JoinSet::new();
    for (server, one) in servers.iter().cycle().cloned().zip(taken) {
        filling.spawn(async move {
            let said = say(one.runner, baton_core::pools::Signal::Registered, Some("one"));
            server.signal_runners(vec![said]).await.unwrap();
            server.commit_claim(claim, Limits::default()).await.unwrap()
        });
    }
    let filled = filling.join_all().await;
    assert_eq!(filled.iter().filter(|answer| matches!(answer, CommitAnswer::Ready(_))).count(), 1, "{filled:?}");
    assert_eq!(pool.count_in(RunnerState::Running).await, 4);
}

async fn claims_and_removals_never_share_a_runner(rig: Rig) {
    let pool = PoolRig::new(rig, 200).await;
    let servers = pool.rig.servers(4).await;
    for round in 0..ROUNDS {
        let idle = pool.idle(12).await;
        let mut racing = JoinSet::new();
        for (number, runner) in idle.iter().copied().enumerate() {
            let (taker, ender) = (servers[number % 4].clone(), servers[(number + 1) % 4].clone());
            let claim = new_claim(pool.number(), &format!("{round}/{number}"), 1);
            racing.spawn(async move {
                taker.open_claim(claim.clone()).await.unwrap();
                let taken = taker.take_runners(claim.pool, rules()).await.unwrap().taken;
                taken.iter().map(|one| one.runner.runner).collect::<Vec<_>>()
            });
            racing.spawn(async move {
                let end = RunnerEnd { runner, cause: Cause::IdleTooLong, detail: String::new() };
                match ender.end_runners(vec![end]).await.unwrap()[0] {
                    RunnerAnswer::Moved(..) | RunnerAnswer::Refused(_) => vec![],
                    RunnerAnswer::Unknown => panic!("{runner:?} is forgotten"),
                }
            });
        }
        let taken: Vec<_> = racing.join_all().await.into_iter().flatten().collect();
        let unique: BTreeSet<_> = taken.iter().copied().collect();
        assert_eq!(unique.len(), taken.len(), "round {round}");
        for runner in idle {
            let expected =
                if unique.contains(&runner.runner) { RunnerState::Claimed } else { RunnerState::Terminating };
            assert_eq!(pool.state(runner.runner).await, expected, "round {round}");
        }
        let claims = pool
            .store()
            .pool_claims(baton_store::ClaimFilter::default(), baton_store::Page { after: None, limit: 1_000 })
            .await
            .unwrap();
        for claim in claims.iter().filter(|claim| !claim.state.is_ended()) {
            pool.store().release_claim(claim.number, RELEASE_MS).await.unwrap();
        }
    }
}

async fn claims_that_end_while_runners_are_taken_lose_none(rig: Rig) {
    let pool = PoolRig::new(rig, 8).await;
    pool.idle(8).await;
    let servers = pool.rig.servers(4).await;
    for round in 0..5 * ROUNDS {
        pool.beat_all().await;
        let mut racing = JoinSet::new();
        for number in 0..8 {
            let (owner, taker) = (servers[number % 4].clone(), servers[(number + 1) % 4].clone());
            let claim = new_claim(pool.number(), &format!("{round}/{number}"), 1 + number as u32 % 3);
            let pool = claim.pool;
            racing.spawn(async move {
                let OpenAnswer::Opened(claim) = owner.open_claim(claim).await.unwrap() else { panic!("not new") };
                owner.release_claim(claim.number, RELEASE_MS).await.unwrap();
            });
            racing.spawn(async move {
                taker.take_runners(pool, rules()).await.unwrap();
            });
        }
        racing.join_all().await;
        assert_eq!(pool.count_in(RunnerState::Claimed).await, 0, "round {round}: every claim has ended");
        for runner in pool.runners_in(RunnerState::Releasing).await {
            pool.deregister(&[runner.reference()], &runner.run_id.clone().unwrap()).await;
        }
        assert_eq!(pool.count_in(RunnerState::Idle).await, 8, "round {round}");
    }
}

async fn terminations_and_orders_are_handed_to_one_server_each(rig: Rig) {
    let pool = PoolRig::new(rig, 100).await;
    let idle = pool.idle(20).await;
    for _ in 0..10 {
        pool.ordered(1).await;
    }
    let ends = idle.iter().map(|runner| RunnerEnd { runner: *runner, cause: Cause::Asked, detail: String::new() });
    pool.store().end_runners(ends.collect()).await.unwrap();
    pool.later(60_000);
    let mut asking = JoinSet::new();
    for server in pool.rig.servers(4).await.into_iter().cycle().take(12) {
        asking.spawn(async move {
            let endings = server.due_endings(60_000, 7).await.unwrap();
            let orders = server.due_orders(60_000, 3).await.unwrap();
            (endings, orders)
        });
    }
    let answers = asking.join_all().await;
    let endings: Vec<_> = answers.iter().flat_map(|(endings, _)| endings.iter().map(|runner| runner.id)).collect();
    let orders: Vec<_> = answers.iter().flat_map(|(_, orders)| orders.iter().map(|order| order.id)).collect();
    let unique = (endings.iter().collect::<BTreeSet<_>>().len(), orders.iter().collect::<BTreeSet<_>>().len());
    assert_eq!((endings.len(), orders.len()), unique, "nobody gets what another got");
    assert_eq!(unique, (20, 10));
}
