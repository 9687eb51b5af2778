//! Changes are carried to their end even when their caller hangs up: what was committed must still
//! wake those who wait for it, and be written down.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use tokio::runtime::Handle;

/// Work that is done where it is awaited, and by a task of its own from the moment it is dropped.
/// A task for all of it would cost each request two more turns of the scheduler.
pub(crate) struct ToItsEnd<T: Send + 'static>(Option<Work<T>>);

type Work<T> = Pin<Box<dyn Future<Output = Option<T>> + Send>>;

/// Carries work to its end. `None` stands for work that panicked.
pub(crate) fn to_its_end<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> ToItsEnd<T> {
    ToItsEnd(Some(Box::pin(AssertUnwindSafe(work).catch_unwind().map(Result::ok))))
}

impl<T: Send + 'static> Future for ToItsEnd<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let Some(work) = &mut self.0 else { return Poll::Ready(None) };
        let ended = std::task::ready!(work.as_mut().poll(cx));
        self.0 = None;
        Poll::Ready(ended)
    }
}

impl<T: Send + 'static> Drop for ToItsEnd<T> {
    fn drop(&mut self) {
        // Where no runtime is left there is nobody to go on.
        if let (Some(work), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn what_is_awaited_is_done_there() {
        assert_eq!(to_its_end(async { 7 }).await, Some(7));
    }

    #[tokio::test]
    async fn what_is_dropped_goes_on() {
        let (go_on, may_go_on) = oneshot::channel::<()>();
        let (done, is_done) = oneshot::channel();
        let work = to_its_end(async {
            let _ = may_go_on.await;
            let _ = done.send(());
        });
        assert!(futures_util::poll!(Box::pin(work)).is_pending());
        go_on.send(()).unwrap();
        is_done.await.expect("it was given up with the one who waited");
    }

    #[tokio::test]
    async fn what_was_never_looked_at_is_done_too() {
        let (done, is_done) = oneshot::channel();
        drop(to_its_end(async { done.send(()) }));
        is_done.await.expect("it was not begun");
    }

    #[tokio::test]
    async fn a_panic_is_no_answer() {
        let ended: Option<()> = to_its_end(async { panic!("for the test") }).await;
        assert_eq!(ended, None);
    }
}
