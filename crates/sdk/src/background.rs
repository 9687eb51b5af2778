//! A thread and a runtime of the SDK's own, for whatever keeps leases alive.
//!
//! Code of users may block the threads of its runtime, or compute on them without an end. A runtime
//! is shared by all its tasks, so heartbeats there would stop, and the
//! server would take away runs that are being worked on. docs/adr/0019 has the reasons.

use std::future::Future;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, EnterGuard, Handle, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::ClientError;

/// How long dropping waits for the thread. It only ever does what takes microseconds.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

/// A thread with a runtime, until it is dropped. What was spawned there is dropped with it, before
/// the drop returns: nothing is said to anybody after that.
#[derive(Debug)]
pub struct Background {
    runtime: Handle,
    stop: Option<oneshot::Sender<()>>,
    stopped: mpsc::Receiver<()>,
}

impl Background {
    /// Starts a thread of this name.
    pub fn start(name: &str) -> Result<Background, ClientError> {
        let cannot = |error| ClientError::Invalid(format!("a thread for the worker cannot be started: {error}"));
        let runtime = Builder::new_current_thread().enable_all().thread_name(name).build().map_err(cannot)?;
        let handle = runtime.handle().clone();
        let (stop, stopping) = oneshot::channel();
        let (say_stopped, stopped) = mpsc::channel();
        thread::Builder::new()
            .name(name.into())
            .spawn(move || {
                live(runtime, stopping);
                drop(say_stopped);
            })
            .map_err(cannot)?;
        Ok(Background { runtime: handle, stop: Some(stop), stopped })
    }

    /// Carries this out on the thread.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.runtime.spawn(future)
    }

    /// What is made while this is held belongs to the thread.
    pub fn enter(&self) -> EnterGuard<'_> {
        self.runtime.enter()
    }
}

fn live(runtime: Runtime, stopping: oneshot::Receiver<()>) {
    // An error is a dropped sender, and means the same.
    let _ = runtime.block_on(stopping);
    // A name that is being looked up is not waited for.
    runtime.shutdown_background();
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.take();
        // Nothing is ever sent: this waits until the thread has dropped its end.
        let _ = self.stopped.recv_timeout(STOP_TIMEOUT);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_was_spawned_is_gone_when_the_drop_returns() {
        let background = Background::start("test").unwrap();
        let kept = Arc::new(());
        let weak = Arc::downgrade(&kept);
        background.spawn(async move {
            std::future::pending::<()>().await;
            drop(kept);
        });
        drop(background);
        assert!(weak.upgrade().is_none());
    }

    #[tokio::test]
    async fn it_goes_on_while_the_runtime_of_its_owner_is_blocked() {
        let background = Background::start("test").unwrap();
        let (sender, receiver) = mpsc::channel();
        background.spawn(async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            sender.send(thread::current().name().map(str::to_owned)).unwrap();
        });
        // Blocks the only thread of this runtime.
        assert_eq!(receiver.recv_timeout(Duration::from_secs(20)).unwrap().as_deref(), Some("test"));
    }

    #[tokio::test]
    async fn what_comes_out_crosses_over() {
        let background = Background::start("test").unwrap();
        assert_eq!(background.spawn(async { 7 }).await.unwrap(), 7);
    }
}
