//! The content-addressed cache. Each namespace has its own; one of them may be there for all to read.

use super::namespace_of;
use crate::artifacts::{Cached, Sha256Sum, Source, Stored};
use crate::auth::Caller;
use crate::{App, Error};

/// Puts a file into the cache of the caller's namespace.
pub async fn put(
    app: &App,
    caller: &Caller,
    sum: Sha256Sum,
    source: Source<'_>,
    length: Option<u64>,
) -> Result<Stored, Error> {
    Ok(app.cache.put(Cached::new(namespace_of(caller), sum), source, length).await?)
}

/// The file with this sum in the cache of the caller's namespace, or in the one that is shared, and
/// its size.
pub async fn find(app: &App, caller: &Caller, sum: Sha256Sum) -> Result<(Cached, u64), Error> {
    let shared = app.settings.cache_shared_namespace.as_deref();
    for namespace in [Some(namespace_of(caller)), shared].into_iter().flatten() {
        let file = Cached::new(namespace, sum);
        if let Some(size) = app.cache.has(file).await? {
            return Ok((file, size));
        }
    }
    Err(Error::NotFound { what: "file", id: format!("{sum} in the cache") })
}
