//! Falls of workers, at any place of a workflow.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use baton_store::Clock;
use tokio::sync::Notify;

use crate::TestEnv;

/// When the workers of a test fall, and whether they are about to.
#[derive(Debug, Default)]
pub(crate) struct Crashes {
    state: Mutex<State>,
    /// Told when the time has come.
    struck: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// How often functions of workflows were about to go on.
    turns: u64,
    /// The turn that does not come.
    crash_at: Option<u64>,
    /// The workers are falling; nothing that they still do counts.
    is_falling: bool,
}

impl Crashes {
    pub(crate) fn at(turn: Option<u64>) -> Crashes {
        Crashes { state: Mutex::new(State { crash_at: turn, ..State::default() }), struck: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A function is about to go on. Returns whether it may.
    fn turn(&self) -> bool {
        let mut state = self.lock();
        if state.is_falling {
            return false;
        }
        state.turns += 1;
        state.is_falling = state.crash_at == Some(state.turns);
        if state.is_falling {
            self.struck.notify_one();
        }
        !state.is_falling
    }

    pub(crate) fn turns(&self) -> u64 {
        self.lock().turns
    }

    pub(crate) fn is_falling(&self) -> bool {
        self.lock().is_falling
    }

    /// From here on functions stand still, until the workers are [up](Crashes::up) again.
    pub(crate) fn down(&self) {
        self.lock().is_falling = true;
    }

    pub(crate) fn up(&self) {
        self.lock().is_falling = false;
    }

    /// Waits until a function has come to the turn that does not come.
    pub(crate) async fn struck(&self) {
        self.struck.notified().await;
    }
}

/// A workflow's function that stands still when its worker is to fall. Whatever it asked for before is written down or on its way to the server by then.
pub(crate) struct Watched<R> {
    function: Pin<Box<R>>,
    crashes: Arc<Crashes>,
    clock: Clock,
}

impl<R> Watched<R> {
    pub(crate) fn new(function: R, crashes: Arc<Crashes>, clock: Clock) -> Watched<R> {
        Watched { function: Box::pin(function), crashes, clock }
    }
}

impl<R: Future> Future for Watched<R> {
    type Output = R::Output;

    fn poll(self: Pin<&mut Self>, polling: &mut Context<'_>) -> Poll<R::Output> {
        let this = self.get_mut();
        if !this.crashes.turn() {
            return Poll::Pending;
        }
        // Workers rely on it that what is written down after a function went on has a later time than what was before: a function that is played again
        // hears of things in the order of their times.
        this.clock.advance(1);
        this.function.as_mut().poll(polling)
    }
}

/// Plays a scenario without a crash, and then once for every place at which a function of a workflow goes on (after each step, sleep, signal and child, and before
/// the first), with all workers falling there. New workers take over from what was written down, and the scenario has to come to the same every time.
///
/// Every play has an environment of its own. What the scenario returns is compared: the result of a workflow, or more, such as how often a card was charged.
///
/// ```
/// use baton::{Context, WorkflowError};
/// use baton_testing::crash_after_each_step;
///
/// async fn sum(ctx: Context, (one, other): (u64, u64)) -> Result<u64, WorkflowError> {
///     let doubled = ctx.step("double", || async { Ok(2 * one) }).await?;
///     ctx.step("add", || async { Ok(doubled + other) }).await
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), baton::ResultError> {
/// let sum = crash_after_each_step(async |env| {
///     env.worker("sums").register("sum", sum);
///     env.run::<u64>("sum", &(20, 2)).await
/// })
/// .await?;
/// assert_eq!(sum, 42);
/// # Ok(()) }
/// ```
///
/// It takes one play for each place, so it is for workflows of dozens of steps, not of thousands.
///
/// # Panics
/// When a play comes to something else than the one without a crash.
pub async fn crash_after_each_step<T: PartialEq + Debug>(scenario: impl AsyncFn(&TestEnv) -> T) -> T {
    let env = TestEnv::that_crashes_at(None).await;
    let calm = scenario(&env).await;
    let turns = env.turns();
    assert!(turns > 0, "no workflow was played");
    drop(env);
    for turn in 1..=turns {
        let env = TestEnv::that_crashes_at(Some(turn)).await;
        let crashed = scenario(&env).await;
        assert!(
            crashed == calm,
            "after a crash at turn {turn} of {turns} it came to {crashed:?}, and without one to {calm:?}"
        );
    }
    calm
}
