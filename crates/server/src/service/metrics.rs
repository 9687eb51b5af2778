//! Who may read the counters. They name namespaces, queues and pools.

use std::net::IpAddr;

use baton_core::token;
use baton_store::Scope;

use crate::auth::refused;
use crate::metrics::TlsLabels;
use crate::{App, Error};

/// Refuses unless the counters are for whoever asks. A call that somebody has passed on comes from
/// elsewhere, whatever its last stretch was.
pub(crate) async fn may_read(
    app: &App,
    credential: Option<&str>,
    from: Option<IpAddr>,
    is_forwarded: bool,
) -> Result<(), Error> {
    let wanted = app.settings.metrics_key.as_deref().map(token::hash);
    let is_shown = |wanted| credential.is_some_and(|shown| token::same(&wanted, &token::hash(shown)));
    if wanted.is_some_and(is_shown) {
        return Ok(());
    }
    let is_here = !is_forwarded && from.is_none_or(|from| from.to_canonical().is_loopback());
    if wanted.is_none() && is_here {
        return Ok(());
    }
    let caller = app.keys.check(credential, from).await?;
    caller.has(Scope::Read)?;
    match caller.namespace {
        None => Ok(()),
        Some(_) => Err(refused("metrics are for keys that are good for all namespaces".into())),
    }
}

/// Notes when the time of the server's certificate is over; it may have been replaced.
pub(crate) fn look_at_certificate(app: &App) {
    if let Some(tls) = app.tls.get() {
        let source = if tls.is_self_signed() { crate::tls::SELF_SIGNED } else { "files" };
        let labels = TlsLabels { source };
        app.metrics.tls_certificate_expiry.get_or_create(&labels).set(tls.about().not_after / 1_000);
        app.metrics.tls_reload_failed.get_or_create(&labels).set(tls.has_failed().into());
    }
}
