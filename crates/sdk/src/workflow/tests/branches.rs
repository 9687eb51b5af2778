//! Several branches at once: counted when they are made, heard in one order, always.

use std::sync::Arc;
use std::time::Duration;

use baton_proto::v1::RunState;
use futures_util::future::{Either, join, join_all, select};
use tokio::sync::Semaphore;

use super::fake::{Counter, End, Fake, Log};
use crate::workflow::driver::Finished;
use crate::workflow::{Context, StepError, WorkflowError};

#[tokio::test(start_paused = true)]
async fn parallel_results_are_in_order_and_bounded() {
    let most = Counter::default();
    let counter = most.clone();
    let fake = Fake::new((), move |ctx: Context, (): ()| {
        let (counter, room) = (counter.clone(), Arc::new(Semaphore::new(3)));
        async move {
            let steps = (0..20u64).map(|number| {
                let (room, counter) = (room.clone(), counter.clone());
                ctx.step("work", move || {
                    let (room, counter) = (room.clone(), counter.clone());
                    async move {
                        let _room = room.try_acquire().map_err(|_| StepError::fatal("more than three at once"))?;
                        counter.up();
                        tokio::time::sleep(Duration::from_millis(100 - 4 * number)).await;
                        Ok(number)
                    }
                })
            });
            ctx.parallel(3, steps).await
        }
    });
    let expected: Vec<u64> = (0..20).collect();
    assert_eq!(fake.play().await, End::Completed(serde_json::to_string(&expected).unwrap()));
    assert_eq!(most.get(), 20);
    fake.replay_is_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn positions_are_taken_when_things_are_made_not_when_they_are_polled() {
    let fake = Fake::new((), |ctx: Context, (): ()| async move {
        let first = ctx.step("first", || async { Ok(1) });
        let second = ctx.step("second", || async { Ok(2) });
        let third = ctx.parallel(1, [ctx.step("third", || async { Ok(3) })]);
        let fourth = ctx.step("fourth", || async { Ok(4) });
        Ok::<_, WorkflowError>((fourth.await?, third.await?, second.await?, first.await?))
    });
    assert_eq!(fake.play().await, End::Completed("[4,[3],2,1]".into()));
    assert_eq!(fake.names(), ["first", "second", "third", "fourth"]);
    fake.replay_is_quiet().await;
}

/// Two branches of several steps each. What the second step of a branch is called depends on the branch, and its position on who is first.
async fn two_branches(ctx: &Context, pace: [u64; 2]) -> Result<(), WorkflowError> {
    let branch = |name: &'static str, pace: u64| async move {
        for number in 0..5u64 {
            let wait = Duration::from_millis(pace * (number % 3));
            ctx.step(format!("{name}{number}"), || async move {
                tokio::time::sleep(wait).await;
                Ok(())
            })
            .await?;
            if number == 2 {
                ctx.sleep(Duration::from_millis(30 * pace)).await?;
            }
        }
        Ok::<_, WorkflowError>(())
    };
    let (a, b) = join(branch("a", pace[0]), branch("b", pace[1])).await;
    a.and(b)
}

#[tokio::test(start_paused = true)]
async fn branches_go_on_in_the_same_order_when_they_are_played_again() {
    for pace in [[0, 0], [1, 0], [0, 1], [1, 1], [1, 2], [2, 1], [3, 1], [7, 5]] {
        let fake = Fake::new((), move |ctx: Context, (): ()| async move {
            two_branches(&ctx, pace).await?;
            ctx.sleep(Duration::from_secs(60)).await
        });
        assert_eq!(fake.play().await, End::Completed("null".into()), "{pace:?}");
        fake.replay_is_quiet().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_falls_anywhere_leaves_something_another_one_can_follow() {
    for fall in 1..40 {
        let fake = Fake::new((), |ctx: Context, (): ()| async move { two_branches(&ctx, [2, 3]).await });
        let first = tokio::spawn(fake.claim());
        while fake.lock().reports.len() < fall && !first.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        first.abort();
        let _ = first.await;
        assert_eq!(fake.play().await, End::Completed("null".into()), "fell after {fall} reports");
    }
}

#[tokio::test(start_paused = true)]
async fn many_more_branches_than_fit_into_one_look_come_to_their_end() {
    let fake = Fake::new((), |ctx: Context, (): ()| async move {
        let waits = (0..300u64).map(|number| {
            let ctx = &ctx;
            async move {
                ctx.sleep(Duration::from_secs(number % 7)).await?;
                ctx.step("one", move || async move { Ok(number) }).await
            }
        });
        let sums: Result<Vec<u64>, WorkflowError> = join_all(waits).await.into_iter().collect();
        Ok::<_, WorkflowError>(sums?.iter().sum::<u64>())
    });
    assert_eq!(fake.play().await, End::Completed((299 * 300 / 2).to_string()));
    fake.replay_is_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn who_won_a_race_wins_it_again() {
    // Listed against the order of their ends: a naive second look would find both there and take the first.
    let fake = Fake::new((), |ctx: Context, (): ()| async move {
        let late = ctx.sleep(Duration::from_secs(100));
        let early = ctx.signal::<u32>("go");
        let winner = match select(late, early).await {
            Either::Left(_) => "late".to_owned(),
            Either::Right((number, _)) => format!("signal {}", number?),
        };
        ctx.step(format!("after {winner}"), || async { Ok(()) }).await?;
        ctx.sleep(Duration::from_secs(1_000)).await?;
        Ok::<_, WorkflowError>(winner)
    });
    fake.play_until_asleep().await;
    fake.signal("go", "7");
    fake.play_until_asleep().await;
    assert_eq!(fake.play().await, End::Completed("\"signal 7\"".into()));
    fake.replay_is_quiet().await;
}

#[tokio::test(start_paused = true)]
async fn children_that_end_in_any_order_are_heard_in_that_order_again() {
    let log = Log::default();
    let notes = log.clone();
    let fake = Fake::new((), move |ctx: Context, (): ()| {
        let notes = notes.clone();
        async move {
            let (ctx, notes) = (&ctx, &notes);
            let branches = (0..3u32).map(|number| async move {
                let output: u32 = ctx.child("child", &number).await?;
                notes.note(format!("child {number}"));
                ctx.step(format!("after child {number}"), || async { Ok(()) }).await?;
                Ok::<_, WorkflowError>(output)
            });
            let outputs: Result<Vec<u32>, WorkflowError> = join_all(branches).await.into_iter().collect();
            outputs
        }
    });
    fake.play_until_asleep().await;
    assert_eq!(fake.lock().children.len(), 3);
    for position in [4, 0, 2] {
        fake.child_ends(position, RunState::Completed, &position.to_string(), "");
        match fake.claim().await {
            Finished::Suspended | Finished::Completed => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(fake.lock().end, Some(End::Completed("[0,2,4]".into())));
    fake.replay_is_quiet().await;
    let all = log.all();
    assert_eq!(all[all.len() - 3..], ["child 2", "child 0", "child 1"]);
    assert_eq!(fake.lock().children.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn while_something_is_executed_sleeps_are_waited_for_in_memory() {
    let fake = Fake::new((), |ctx: Context, (): ()| async move {
        let long = ctx.step("long", || async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            Ok(())
        });
        let short = async {
            ctx.sleep(Duration::from_secs(1)).await?;
            ctx.step("short", || async { Ok(()) }).await
        };
        let (long, short) = join(long, short).await;
        long.and(short)
    });
    assert_eq!(fake.claim().await, Finished::Completed);
    let ended: Vec<_> =
        fake.lock().steps.values().map(|step| (step.name.clone(), step.ended_at.unwrap().seconds % 100)).collect();
    assert_eq!(ended, [("long".into(), 10), ("end".into(), 1), ("short".into(), 1)]);
    fake.replay_is_quiet().await;
}
