//! What an agent does next: a pure function of where it stands, what it hears, and the time.
//!
//! The server's word counts. The agent never decides that it is free: it says what its hooks did, and waits for what the server makes of it. It decides alone
//! only to end its machine, when nobody is there to decide.

use baton::proto::{RunnerAction, RunnerOrder, SignalRunner};
use baton_core::Millis;
use baton_core::pools::Signal;

use super::words::{Action, Hook, Input, Job, Patience, Why};

/// Where an agent stands.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Stage {
    /// Nothing is registered, and the machine is clean.
    Free,
    /// The hook runs.
    Registering(Job),
    /// The hook has worked: jobs of the run may be at work here.
    Registered(Job),
    /// It is of no use to anybody: a hook has failed. It may still be registered.
    Broken { job: Job, is_registered: bool },
    /// The other hook runs.
    Deregistering(Job),
    /// The run's leavings are removed.
    Cleaning(Job),
    /// The last hook runs, and then the machine ends.
    Ending(Why),
    /// Nothing is left to do.
    Over,
}

/// An agent, as the rules see it.
#[derive(Debug)]
pub struct Agent {
    patience: Patience,
    stage: Stage,
    /// When the server last answered.
    reached: Millis,
    /// The newest epoch that the server has spoken of. Answers may overtake each other, and older ones are old news.
    heard: u32,
    /// The release that was carried out last.
    released: Option<u32>,
}

impl Agent {
    /// An agent that has just joined, and what it does first.
    pub fn joined(patience: Patience, order: &RunnerOrder, now: Millis) -> (Agent, Vec<Action>) {
        let mut agent = Agent { patience, stage: Stage::Free, reached: now, heard: order.epoch, released: None };
        let actions = match order.action {
            RunnerAction::Start => {
                let (signal, epoch) = (Signal::Ready, order.epoch);
                vec![Action::Say(SignalRunner { signal, epoch, run_id: None, detail: String::new() })]
            }
            RunnerAction::Idle
            | RunnerAction::Register
            | RunnerAction::Keep
            | RunnerAction::Deregister
            | RunnerAction::End => agent.order(order, now),
        };
        (agent, actions)
    }

    /// When the agent has to look at the clock again, whatever else happens.
    pub fn wake_at(&self) -> Option<Millis> {
        match self.stage {
            Stage::Ending(_) | Stage::Over => None,
            Stage::Free
            | Stage::Registering(_)
            | Stage::Registered(_)
            | Stage::Broken { .. }
            | Stage::Deregistering(_)
            | Stage::Cleaning(_) => {
                let alone_at = self.reached.saturating_add(self.patience.unreachable_ms);
                Some(self.overtime_at().map_or(alone_at, |at| at.min(alone_at)).saturating_add(1))
            }
        }
    }

    /// Takes note of something, and says what is to be done about it.
    pub fn hear(&mut self, input: Input, now: Millis) -> Vec<Action> {
        match input {
            Input::Order(order) => {
                self.reached = now;
                self.order(&order, now)
            }
            Input::Hook(hook, result) => self.hook(hook, result),
            Input::Cleaned(result) => self.cleaned(result),
            Input::Disowned(why) => self.end(Why::Disowned(why)),
            Input::Stop => self.end(Why::Stopped),
            Input::Time => self.time(now),
        }
    }

    fn order(&mut self, order: &RunnerOrder, now: Millis) -> Vec<Action> {
        let is_old = match order.action {
            // Never taken back, and said without an epoch when the server has forgotten the runner.
            RunnerAction::End => false,
            RunnerAction::Start
            | RunnerAction::Idle
            | RunnerAction::Register
            | RunnerAction::Keep
            | RunnerAction::Deregister => order.epoch < self.heard,
        };
        if is_old {
            return Vec::new();
        }
        self.heard = order.epoch;
        let job = Job::of(order, now);
        match order.action {
            RunnerAction::Start | RunnerAction::Idle => self.wait(order.epoch),
            RunnerAction::Register => self.register(job),
            RunnerAction::Keep => self.keep(job),
            RunnerAction::Deregister => self.deregister(job),
            RunnerAction::End => self.end(Why::Told),
        }
    }

    fn wait(&mut self, epoch: u32) -> Vec<Action> {
        match &self.stage {
            Stage::Free | Stage::Ending(_) | Stage::Over => Vec::new(),
            // An answer that was on its way while the agent was quicker.
            Stage::Registering(job)
            | Stage::Registered(job)
            | Stage::Broken { job, .. }
            | Stage::Deregistering(job)
            | Stage::Cleaning(job)
                if job.epoch >= epoch =>
            {
                Vec::new()
            }
            // Somebody could be given a machine that is in use.
            Stage::Registering(_)
            | Stage::Registered(_)
            | Stage::Broken { .. }
            | Stage::Deregistering(_)
            | Stage::Cleaning(_) => self.end(Why::Confused),
        }
    }

    fn register(&mut self, new: Job) -> Vec<Action> {
        match &self.stage {
            Stage::Free => {
                self.stage = Stage::Registering(new.clone());
                vec![Action::Register(new)]
            }
            // Said before the server heard what became of it.
            Stage::Registering(job) | Stage::Registered(job) | Stage::Broken { job, .. } if job.epoch == new.epoch => {
                Vec::new()
            }
            Stage::Registering(_)
            | Stage::Registered(_)
            | Stage::Broken { .. }
            | Stage::Deregistering(_)
            | Stage::Cleaning(_) => self.end(Why::Confused),
            Stage::Ending(_) | Stage::Over => Vec::new(),
        }
    }

    fn keep(&mut self, new: Job) -> Vec<Action> {
        match &mut self.stage {
            // The run was handed its machines, and may keep them until then.
            Stage::Registered(job) if job.epoch == new.epoch => {
                // What is left is never less than nothing: the same deadline, heard again, must not move on.
                let known = job.deadline.filter(|_| job.until == new.until);
                let deadline = known.into_iter().chain(new.deadline).min();
                *job = Job { deadline, ..new };
                Vec::new()
            }
            // Whoever vouches for what it does not hold would hand a run a machine that does not work for it.
            Stage::Free
            | Stage::Registering(_)
            | Stage::Registered(_)
            | Stage::Broken { .. }
            | Stage::Deregistering(_)
            | Stage::Cleaning(_) => self.end(Why::Confused),
            Stage::Ending(_) | Stage::Over => Vec::new(),
        }
    }

    fn deregister(&mut self, new: Job) -> Vec<Action> {
        match &mut self.stage {
            Stage::Free if self.released == Some(new.epoch) => Vec::new(),
            // The claim was given up before the agent heard of it.
            Stage::Free => {
                self.released = Some(new.epoch);
                vec![new.say(Signal::Deregistered, String::new())]
            }
            Stage::Registering(_) | Stage::Registered(_) => {
                self.stage = Stage::Deregistering(new.clone());
                vec![Action::Deregister(new)]
            }
            Stage::Broken { job, .. } | Stage::Deregistering(job) | Stage::Cleaning(job) if job.epoch == new.epoch => {
                Vec::new()
            }
            // The claim was given up before the server heard that the hook had failed. What has failed is not to be trusted.
            Stage::Broken { job, .. } => {
                let say = new.say(Signal::DeregisterFailed, "it could not be registered before".into());
                *job = new;
                vec![say]
            }
            Stage::Deregistering(_) | Stage::Cleaning(_) => self.end(Why::Confused),
            Stage::Ending(_) | Stage::Over => Vec::new(),
        }
    }

    fn hook(&mut self, hook: Hook, result: Result<(), String>) -> Vec<Action> {
        match (hook, &self.stage, result) {
            (Hook::Register, Stage::Registering(job), Ok(())) => {
                let say = job.say(Signal::Registered, String::new());
                // It is in time. How long it may go on is for the server to say, once the claim is filled.
                self.stage = Stage::Registered(Job { deadline: None, until: None, ..job.clone() });
                vec![say]
            }
            (Hook::Register, Stage::Registering(job), Err(why)) => {
                let say = job.say(Signal::RegisterFailed, why);
                // It may have come halfway.
                self.stage = Stage::Broken { job: job.clone(), is_registered: true };
                vec![say]
            }
            (Hook::Deregister, Stage::Deregistering(job), Ok(())) => {
                self.stage = Stage::Cleaning(job.clone());
                vec![Action::Clean]
            }
            (Hook::Deregister, Stage::Deregistering(job), Err(why)) => self.broken(job.clone(), why),
            (Hook::Deregister, Stage::Ending(why), Ok(()) | Err(_)) => self.over(why.clone()),
            // A hook that was stopped, because something else is wanted by now.
            (
                Hook::Register | Hook::Deregister,
                Stage::Free
                | Stage::Registering(_)
                | Stage::Registered(_)
                | Stage::Broken { .. }
                | Stage::Deregistering(_)
                | Stage::Cleaning(_)
                | Stage::Ending(_)
                | Stage::Over,
                Ok(()) | Err(_),
            ) => Vec::new(),
        }
    }

    fn cleaned(&mut self, result: Result<(), String>) -> Vec<Action> {
        match (&self.stage, result) {
            (Stage::Cleaning(job), Ok(())) => {
                let say = job.say(Signal::Deregistered, String::new());
                self.released = Some(job.epoch);
                self.stage = Stage::Free;
                vec![say]
            }
            (Stage::Cleaning(job), Err(why)) => self.broken(job.clone(), why),
            (
                Stage::Free
                | Stage::Registering(_)
                | Stage::Registered(_)
                | Stage::Broken { .. }
                | Stage::Deregistering(_)
                | Stage::Ending(_)
                | Stage::Over,
                Ok(()) | Err(_),
            ) => Vec::new(),
        }
    }

    /// The machine could not be made what it was: nobody else may get it.
    fn broken(&mut self, job: Job, why: String) -> Vec<Action> {
        let say = job.say(Signal::DeregisterFailed, why);
        self.stage = Stage::Broken { job, is_registered: false };
        vec![say]
    }

    fn time(&mut self, now: Millis) -> Vec<Action> {
        if self.overtime_at().is_some_and(|at| at < now) {
            return self.end(Why::Overtime);
        }
        if now.saturating_sub(self.reached) > self.patience.unreachable_ms {
            return self.end(Why::Unreachable);
        }
        Vec::new()
    }

    fn overtime_at(&self) -> Option<Millis> {
        let job = match &self.stage {
            Stage::Registering(job)
            | Stage::Registered(job)
            | Stage::Broken { job, .. }
            | Stage::Deregistering(job)
            | Stage::Cleaning(job) => job,
            Stage::Free | Stage::Ending(_) | Stage::Over => return None,
        };
        job.deadline.map(|deadline| deadline.saturating_add(self.patience.overtime_ms))
    }

    /// Ends the machine, after it has deregistered from what it may be registered for. Nobody waits for that to work.
    fn end(&mut self, why: Why) -> Vec<Action> {
        match &self.stage {
            Stage::Registering(job) | Stage::Registered(job) | Stage::Broken { job, is_registered: true } => {
                let job = job.clone();
                self.stage = Stage::Ending(why);
                vec![Action::Deregister(job)]
            }
            // The hook that it takes runs already.
            Stage::Deregistering(_) => {
                self.stage = Stage::Ending(why);
                Vec::new()
            }
            Stage::Free | Stage::Broken { is_registered: false, .. } | Stage::Cleaning(_) => self.over(why),
            Stage::Ending(_) | Stage::Over => Vec::new(),
        }
    }

    fn over(&mut self, why: Why) -> Vec<Action> {
        self.stage = Stage::Over;
        vec![Action::End(why)]
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
