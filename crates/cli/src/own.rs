//! Children that this program has started itself, told apart from orphans that came to it: somebody here waits for these.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::process::{Child, Command};

static NUMBERS: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

/// The number of a child. Dropping it says that nobody waits for that child any more.
pub struct Own(u32);

fn numbers() -> MutexGuard<'static, BTreeSet<u32>> {
    NUMBERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a child.
pub fn spawn(command: &mut Command) -> io::Result<(Child, Option<Own>)> {
    // Held meanwhile: whoever looks in between would take it for an orphan.
    let mut numbers = numbers();
    let child = command.spawn()?;
    let own = child.id().inspect(|number| {
        numbers.insert(*number);
    });
    Ok((child, own.map(Own)))
}

/// Looks at the numbers of all children, while none is started.
pub fn all<T>(look: impl FnOnce(&BTreeSet<u32>) -> T) -> T {
    look(&numbers())
}

impl Drop for Own {
    fn drop(&mut self) {
        numbers().remove(&self.0);
    }
}
