//! What is to be said of certificates, and of servers without.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use baton::{Client, Dialer};
use baton_server::Settings;
use baton_server::tls::{About, ENDS_SOON_DAYS, SELF_SIGNED, look};

use super::Check;
use crate::connection::Connection;

/// How long a server may take to show its certificate.
const SHOW_TIMEOUT: Duration = Duration::from_secs(5);
const DAY_MS: i64 = 24 * 3600 * 1000;
const NAME: &str = "TLS certificate";

/// Looks at what a server would be started with here.
pub(super) fn check_settings(settings: &Settings) -> Vec<Check> {
    let own = settings.data.join("tls/self-signed.crt");
    let (path, todo) = match (&settings.tls_cert, settings.tls.as_deref()) {
        (Some(path), _) => {
            (Path::new(path), "put a new certificate and its key in place; the server takes them over by itself")
        }
        (None, Some(SELF_SIGNED)) if own.exists() => (
            own.as_path(),
            "remove it and its key, and start the server again: it makes others, whose fingerprint clients have to be told",
        ),
        (None, Some(_)) => return vec![],
        (None, None) => return check_listen(settings).into_iter().collect(),
    };
    vec![match look(path) {
        Ok(about) => ends(&format!("{} is", path.display()), &about, now_ms(), todo),
        Err(why) => Check::fail(NAME, why, "give the server a certificate that it can read (tls_cert)"),
    }]
}

/// Warns where a server would listen beyond this machine without TLS.
fn check_listen(settings: &Settings) -> Option<Check> {
    let address: SocketAddr = settings.listen.parse().ok()?;
    if address.ip().is_loopback() || settings.insecure_listen {
        return None;
    }
    Some(Check::warn(
        "TLS",
        format!("the server listens on {address} without TLS: keys and data can be read on their way"),
        "start it with --tls-cert and --tls-key, or with --tls self-signed; --insecure-listen says that the network is safe",
    ))
}

/// Looks at the certificate that the server shows. Nothing without TLS, or where it is not trusted: that is said already.
pub(super) async fn check_certificate(client: &Client, connection: &Connection) -> Option<Check> {
    let dialer = Dialer::new(client.url(), &connection.tls_options().ok()?).ok()?;
    let shown = tokio::time::timeout(SHOW_TIMEOUT, dialer.dial()).await.ok()?.ok()?.certificate()?;
    let about = About::of(&shown.into()).ok()?;
    let todo =
        "put a new certificate and its key where the server has them (tls_cert, tls_key); it takes them over by itself";
    Some(ends("the one that the server shows is", &about, now_ms(), todo))
}

fn ends(which: &str, about: &About, now: i64, todo: &str) -> Check {
    let days = (about.not_after - now).div_euclid(DAY_MS);
    let at = baton::proto::Time(about.not_after);
    match days {
        ..0 => Check::fail(NAME, format!("{which} good no more since {at}: clients refuse it"), todo),
        0..ENDS_SOON_DAYS => Check::warn(NAME, format!("{which} good until {at}, which is in {days} days"), todo),
        ENDS_SOON_DAYS.. => Check::ok(NAME, format!("{which} good until {at}")),
    }
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn a_certificate_that_ends_is_told_of_in_time() {
        let now = 1_700_000_000_000;
        for (days, status) in
            [(-1, Status::Fail), (0, Status::Warn), (13, Status::Warn), (14, Status::Ok), (90, Status::Ok)]
        {
            let about = About { not_after: now + days * DAY_MS, names: vec![], fingerprint: String::new() };
            let check = ends("it is", &about, now, "renew it");
            assert!(check.status == status, "{days}: {}", check.found);
            assert_eq!(check.todo.is_some(), status != Status::Ok, "{days}");
        }
    }

    #[test]
    fn listening_beyond_this_machine_without_tls_is_told_of() {
        let found = |listen: &str, insecure_listen, tls: Option<&str>| {
            let tls = tls.map(str::to_owned);
            let settings = Settings { listen: listen.into(), insecure_listen, tls, ..Settings::default() };
            check_settings(&settings).iter().any(|check| check.status == Status::Warn)
        };
        assert!(found("0.0.0.0:7400", false, None) && found("10.0.0.1:7400", false, None));
        assert!(!found("127.0.0.1:7400", false, None) && !found("[::1]:7400", false, None));
        assert!(!found("0.0.0.0:7400", true, None) && !found("0.0.0.0:7400", false, Some(SELF_SIGNED)));
    }
}
