//! A piece of work for one of the store's threads, and the answer that somebody waits for.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::oneshot;

use super::connection::Sql;
use crate::{StoreError, StoreResult};

/// Work that is done first and answered later, when its transaction has been committed.
pub(super) trait Job: Send {
    /// Does the work. An error means that what it wrote has to be undone.
    fn run(&mut self, sql: &Sql<'_>) -> StoreResult<()>;
    /// Tells the caller. `outcome` is what became of the transaction.
    fn answer(self: Box<Self>, outcome: Result<(), &StoreError>);
}

struct Task<T, W> {
    work: Option<W>,
    result: Option<StoreResult<T>>,
    reply: oneshot::Sender<StoreResult<T>>,
}

/// Makes a job of a closure.
pub(super) fn task<T, W>(work: W) -> (Box<dyn Job>, oneshot::Receiver<StoreResult<T>>)
where
    T: Send + 'static,
    W: FnOnce(&Sql<'_>) -> StoreResult<T> + Send + 'static,
{
    let (reply, answer) = oneshot::channel();
    (Box::new(Task { work: Some(work), result: None, reply }), answer)
}

impl<T, W> Job for Task<T, W>
where
    T: Send,
    W: FnOnce(&Sql<'_>) -> StoreResult<T> + Send,
{
    fn run(&mut self, sql: &Sql<'_>) -> StoreResult<()> {
        let Some(work) = self.work.take() else { return Ok(()) };
        // A bug in one verb must not take the thread, and with it the whole store, down. Nothing that the closure
        // could leave half-done survives it: its transaction is undone, and it owns the rest.
        let result = catch_unwind(AssertUnwindSafe(|| work(sql))).unwrap_or_else(|panic| {
            let text = panic_text(panic.as_ref());
            tracing::error!(panic = text, "a store call panicked");
            Err(StoreError::Internal(format!("a store call panicked: {text}")))
        });
        let kept = result.as_ref().map(|_| ()).map_err(StoreError::clone);
        self.result = Some(result);
        kept
    }

    fn answer(self: Box<Self>, outcome: Result<(), &StoreError>) {
        let answer = match (self.result, outcome) {
            (Some(Ok(_)) | None, Err(error)) => Err(error.clone()),
            (Some(result), _) => result,
            (None, Ok(())) => Err(StoreError::Internal("a store call was not carried out".into())),
        };
        // A caller that has gone away does not want to know.
        let _ = self.reply.send(answer);
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "no message",
    }
}
