//! Time in a test: it stands still while anything is under way, and jumps to what is due next.

use std::time::Duration;

use baton::{ClientError, State, WorkflowHandle, WorkflowRun};
use baton_store::sqlite::Outlook;

use crate::TestEnv;
use crate::site::millis;

/// Between two looks at what is under way.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// After so many looks at something that is under way the server is told to look, too.
const NUDGE_LOOKS: u32 = 8;
/// After so many looks nobody wants a run that can be claimed: no worker plays its type, or its queue has a limit. Looks, not time: on a machine that is
/// busy with something else, workers get as little time as whoever looks.
const UNWANTED_LOOKS: u32 = 300;
/// So many looks something may still come from outside when nothing is left that could happen by itself.
const STUCK_LOOKS: u32 = 300;
/// Most jumps while waiting for one workflow. A schedule never ends, and a workflow that waits for nothing would be waited for in all eternity.
const JUMPS_MAX: u32 = 10_000;

impl TestEnv {
    /// Waits until nothing is under way: every workflow has ended or waits for a moment, a signal or a child. Time stands still.
    pub async fn settle(&self) {
        self.outlook_when_settled().await;
    }

    /// Lets this much time pass: the clock jumps from one due moment to the next, whatever becomes due is done, and in the end nothing is under way.
    pub async fn skip_time(&self, span: Duration) {
        let until = self.site().now().saturating_add(i64::try_from(span.as_millis()).unwrap_or(i64::MAX));
        self.skip_to(until).await;
    }

    /// Lets time pass until this moment, as [`TestEnv::skip_time`] does.
    pub async fn skip_time_until(&self, moment: std::time::SystemTime) {
        self.skip_to(millis(moment)).await;
    }

    async fn skip_to(&self, until: i64) {
        loop {
            let outlook = self.outlook_when_settled().await;
            if outlook.now >= until {
                return;
            }
            self.site().move_to(outlook.next.map_or(until, |next| next.min(until)));
        }
    }

    /// Lets time pass, however much it takes, until this is done.
    ///
    /// For code that does not know of the test. While it does something else than wait, the clock may jump: what sends a signal in time is better tested
    /// with [`TestEnv::skip_time`] and [`TestEnv::result`].
    pub async fn skip_time_while<T>(&self, work: impl Future<Output = T>) -> T {
        let skipping = async {
            loop {
                let outlook = self.outlook_when_settled().await;
                match outlook.next {
                    Some(next) => self.site().move_to(next),
                    None => tokio::time::sleep(LOOK_EVERY).await,
                }
            }
        };
        tokio::select! {
            biased;
            done = work => done,
            () = skipping => unreachable!("time goes on for ever"),
        }
    }

    /// Lets time pass until the workflow has ended. Does not go on when it has, whatever else there is to come.
    pub(crate) async fn skip_time_until_ended(&self, handle: &WorkflowHandle) -> Result<WorkflowRun, ClientError> {
        let skipping = async {
            let (mut jumps, mut idle_looks) = (0, 0);
            loop {
                let outlook = self.outlook_when_settled().await;
                let run = handle.wait_for(Duration::ZERO).await?;
                if run.state.is_ended() {
                    return Ok(run);
                }
                let Some(next) = outlook.next else {
                    idle_looks += 1;
                    // A worker for what nobody wants was waited for already.
                    let is_stuck = idle_looks > STUCK_LOOKS || outlook.claimable > 0;
                    assert!(!is_stuck, "{}", stuck(&run, &outlook));
                    tokio::time::sleep(LOOK_EVERY).await;
                    continue;
                };
                idle_looks = 0;
                jumps += 1;
                assert!(jumps < JUMPS_MAX, "the clock has jumped {JUMPS_MAX} times; {}", stuck(&run, &outlook));
                self.site().move_to(next);
            }
        };
        tokio::select! {
            ended = handle.wait() => ended,
            ended = skipping => ended,
        }
    }

    async fn outlook_when_settled(&self) -> Outlook {
        self.begin_workers().await;
        let (mut before, mut looks, mut all_looks) = (None, 0, 0u32);
        loop {
            all_looks = all_looks.wrapping_add(1);
            // Falling is looked at first: whoever has risen again is seen in the outlook.
            let is_falling = self.is_falling();
            let outlook = self.site().outlook().await;
            if !is_falling && !outlook.is_busy {
                looks = if before == Some(outlook) { looks + 1 } else { 0 };
                if outlook.claimable == 0 || looks > UNWANTED_LOOKS {
                    return outlook;
                }
            }
            before = Some(outlook);
            if all_looks.is_multiple_of(NUDGE_LOOKS) {
                self.site().nudge().await;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// What is said of a workflow that will never end.
fn stuck(run: &WorkflowRun, outlook: &Outlook) -> String {
    let why = match run.state {
        State::Pending => "no worker takes it; is one registered for its type, queue and namespace?",
        State::Sleeping if outlook.next.is_none() => {
            "it waits for a signal or a child, and nothing is left that could happen"
        }
        State::Sleeping => "it sleeps or waits for a signal or a child",
        State::Assigned | State::Running | State::Completed | State::Failed | State::Cancelled => "it has not ended",
    };
    format!("the workflow {:?} is {}: {why}", run.workflow_type, run.state.as_str())
}
