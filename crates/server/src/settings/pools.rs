//! The settings of runner pools, as the rules take them.

use std::net::IpAddr;

use baton_core::Millis;
use baton_core::pools::{BackoffRule, Limits};
use baton_store::{PoolExpiry, TakeRules};

use super::Settings;
use super::check::SPAN_MS_MAX;

/// How much longer than an agent lives by itself its runner is kept.
const ABANDONED_MARGIN_MS: u64 = 60_000;
/// Rows in one look for what has run out.
const EXPIRE_MAX: usize = 1_000;

fn ms(setting: u64) -> Millis {
    Millis::try_from(setting).unwrap_or(Millis::MAX)
}

impl Settings {
    /// How long runners may take.
    pub(crate) fn pool_limits(&self) -> Limits {
        Limits {
            register_ms: ms(self.pool_register_ms),
            heartbeat_ms: ms(self.pool_heartbeat_timeout_ms),
            new_register_ms: ms(self.pool_new_register_ms),
            new_heartbeat_ms: ms(self.pool_new_heartbeat_timeout_ms),
            is_deaf: false,
        }
    }

    /// What claims hold runners to.
    pub(crate) fn pool_take_rules(&self) -> TakeRules {
        TakeRules { limits: self.pool_limits(), release_ms: self.pool_release(), is_held: false }
    }

    /// How long a runner may take to deregister.
    pub(crate) fn pool_release(&self) -> Millis {
        ms(self.pool_release_ms)
    }

    /// What is too old.
    pub(crate) fn pool_expiry(&self) -> PoolExpiry {
        PoolExpiry {
            release_ms: self.pool_release(),
            silent_ms: ms(self.pool_silent_ms),
            abandoned_ms: ms(self.pool_abandon_ms.saturating_add(ABANDONED_MARGIN_MS)),
            is_deaf: false,
            limit: EXPIRE_MAX,
        }
    }

    /// What happens after a provider has refused.
    pub(crate) fn pool_backoff(&self) -> BackoffRule {
        BackoffRule {
            first_ms: self.pool_backoff_first_ms,
            max_ms: self.pool_backoff_max_ms,
            spot_ms: ms(self.pool_spot_retry_ms),
        }
    }

    /// For how long a call of a provider belongs to one server: half as long again as it may take.
    pub(crate) fn pool_ask(&self) -> Millis {
        ms(self.pool_provider_timeout_ms.saturating_add(self.pool_provider_timeout_ms / 2))
    }

    /// How long what a provider lists may differ from what the store knows.
    pub(crate) fn pool_grace(&self) -> Millis {
        ms(self.pool_orphan_grace_ms)
    }

    /// Spans of runner pools that cannot be meant.
    pub(super) fn check_pools(&self) -> Result<(), String> {
        let spans = [
            ("pool_heartbeat_ms", self.pool_heartbeat_ms),
            ("pool_register_ms", self.pool_register_ms),
            ("pool_heartbeat_timeout_ms", self.pool_heartbeat_timeout_ms),
            ("pool_new_register_ms", self.pool_new_register_ms),
            ("pool_new_heartbeat_timeout_ms", self.pool_new_heartbeat_timeout_ms),
            ("pool_create_ms", self.pool_create_ms),
            ("pool_release_ms", self.pool_release_ms),
            ("pool_silent_ms", self.pool_silent_ms),
            ("pool_abandon_ms", self.pool_abandon_ms),
            ("pool_wait_ms", self.pool_wait_ms),
            ("pool_look_ms", self.pool_look_ms),
            ("pool_sweep_ms", self.pool_sweep_ms),
            ("pool_orphan_grace_ms", self.pool_orphan_grace_ms),
            ("pool_provider_timeout_ms", self.pool_provider_timeout_ms),
            ("pool_backoff_first_ms", self.pool_backoff_first_ms),
            ("pool_backoff_max_ms", self.pool_backoff_max_ms),
            ("pool_spot_retry_ms", self.pool_spot_retry_ms),
            ("pool_retention_ms", self.pool_retention_ms),
        ];
        if let Some((name, _)) = spans.iter().find(|(_, value)| !(1..=SPAN_MS_MAX).contains(value)) {
            return Err(format!("{name} must be 1 to {SPAN_MS_MAX}"));
        }
        let oldest = self.pool_heartbeat_timeout_ms.min(self.pool_new_heartbeat_timeout_ms).min(self.pool_silent_ms);
        if oldest < self.pool_heartbeat_ms.saturating_mul(2) {
            return Err(format!(
                "pool_heartbeat_timeout_ms, pool_new_heartbeat_timeout_ms and pool_silent_ms must be at least twice \
                 pool_heartbeat_ms ({}): an agent may miss one heartbeat",
                self.pool_heartbeat_ms
            ));
        }
        if let Some(url) = &self.pool_url {
            check_url(url)?;
        }
        if self.pool_claims_waiting_max == 0 {
            return Err("pool_claims_waiting_max must be at least 1".into());
        }
        if self.pool_command_output_bytes_max == 0 {
            return Err("pool_command_output_bytes_max must be at least 1".into());
        }
        Ok(())
    }
}

/// Whether a URL can be that of a server, for somebody else: what no client would understand, or
/// would take for its own machine, is not.
fn check_url(url: &str) -> Result<(), String> {
    let wrong = |why: &str| Err(format!("pool_url: {url:?} is no address under which agents reach a server: {why}"));
    let like = "it must be like http://10.0.0.10:7400";
    let Ok(uri) = url.parse::<http::Uri>() else { return wrong(like) };
    match uri.scheme_str() {
        Some("http" | "https") => {}
        Some(_) | None => return wrong("it must begin with http:// or https://"),
    }
    let Some(authority) = uri.authority().filter(|authority| !authority.host().is_empty()) else { return wrong(like) };
    if authority.as_str().contains('@') || uri.query().is_some() || url.contains('#') {
        return wrong("it must have neither a user, nor a query, nor a fragment");
    }
    if authority.as_str().ends_with(':') || authority.port_u16() == Some(0) {
        return wrong("it has no port that could be called");
    }
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(ip) if ip.is_unspecified() => wrong("that is what a server listens on, and nobody can call it"),
        Ok(_) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_nobody_can_call_is_refused() {
        for good in [
            "http://10.0.0.10:7400",
            "http://baton.internal",
            "http://baton.internal:7400/",
            "http://[fd00::1]:7400",
            "http://127.0.0.1:7400",
            "http://proxy/baton",
            "https://baton.internal",
        ] {
            assert_eq!(check_url(good), Ok(()), "{good}");
        }
        for wrong in [
            "",
            "10.0.0.10:7400",
            "baton.internal",
            "https://0.0.0.0:7400",
            "ftp://baton.internal",
            "http://",
            "http://0.0.0.0:7400",
            "http://[::]:7400",
            "http://10.0.0.10:0",
            "http://10.0.0.10:",
            "http://key@10.0.0.10:7400",
            "http://10.0.0.10:7400/?key=x",
            "http://10.0.0.10:7400 ",
        ] {
            assert!(check_url(wrong).unwrap_err().contains("pool_url"), "{wrong}");
        }
    }
}
