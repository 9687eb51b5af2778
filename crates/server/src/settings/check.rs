//! Which settings make no sense.

use baton_core::webhooks::{AllowedTargets, Backoff};
use baton_store::StoreError;

use super::Settings;
use crate::artifacts::{may_hold_credentials, unknown_scheme};
use crate::secrets::{MASTER_KEY_VARIABLE, MasterKeys};

/// Longest span that can be set, about a hundred years: sums of it and of any moment still are moments.
pub(super) const SPAN_MS_MAX: u64 = 100 * 366 * super::defaults::DAY_MS;
/// Largest payload that may be allowed: each is in memory as a whole.
const PAYLOAD_BYTES_MAX: usize = 1 << 30;
/// Most that a workflow may be allowed to remember. Twice as much has to go into one message to a worker, whose length is a number of 32 bits.
const JOURNAL_BYTES_MAX: u64 = 1 << 30;
/// Slowest and fastest that bulk operations may be allowed to be, in runs a second.
const BULK_RATE_MIN: f64 = 0.001;
const BULK_RATE_MAX: f64 = 1_000_000.0;
/// Longest time that a receiver of a webhook may be given: it takes a place among those that are called.
const WEBHOOK_TIMEOUT_MS_MAX: u64 = 60_000;
/// Shortest that sessions of the dashboard may be.
const SESSION_MS_MIN: u64 = 300_000;
/// Most runs that may be allowed to wait: what a store can count.
const BACKLOG_MAX: u64 = i64::MAX as u64;

impl Settings {
    /// Refuses settings that cannot be meant.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.listen.parse::<std::net::SocketAddr>().is_err() {
            return Err(format!("listen must be an address and a port like 127.0.0.1:7400, not {:?}", self.listen));
        }
        if let Some(key) = &self.api_key
            && key.len() < baton_core::token::API_KEY_LENGTH_MIN
        {
            return Err(format!("api_key must have at least {} characters", baton_core::token::API_KEY_LENGTH_MIN));
        }
        if let Some(key) = &self.metrics_key
            && key.len() < baton_core::token::API_KEY_LENGTH_MIN
        {
            return Err(format!("metrics_key must have at least {} characters", baton_core::token::API_KEY_LENGTH_MIN));
        }
        let master = [
            ("master_key_file", self.master_key_file.is_some()),
            ("master_key_command", self.master_key_command.is_some()),
            (MASTER_KEY_VARIABLE, self.master_key.is_some()),
        ];
        let given: Vec<_> = master.iter().filter(|(_, is_given)| *is_given).map(|(name, _)| *name).collect();
        if given.len() > 1 {
            return Err(format!(
                "the master key comes from one place, and {} are given: leave out all but one",
                given.join(" and ")
            ));
        }
        if let Some(keys) = &self.master_key {
            MasterKeys::parse(&keys.reveal().replace(',', "\n"), MASTER_KEY_VARIABLE)?;
        }
        if let Some(sink) = &self.audit_sink {
            sink.parse::<crate::audit::Sink>()?;
        }
        self.otlp().map_err(|error| format!("otlp_endpoint, otlp_protocol or otlp_headers: {error}"))?;
        if !(0.0..=1.0).contains(&self.otlp_sample_ratio) {
            return Err(format!("otlp_sample_ratio must be 0 to 1, not {}", self.otlp_sample_ratio));
        }
        self.check_urls()?;
        crate::proxies::Proxies::parse(&self.trusted_proxies)?;
        crate::http::Origins::parse(&self.cors_origins)?;
        self.check_webhooks()?;
        self.check_tls()?;
        self.check_limits()?;
        self.check_spans()?;
        self.check_pools()?;
        self.check_github()?;
        self.check_shares()?;
        if self.build_platforms.split(',').all(|platform| platform.trim().is_empty()) {
            return Err("build_platforms must name at least one platform".into());
        }
        Ok(())
    }

    fn check_webhooks(&self) -> Result<(), String> {
        AllowedTargets::parse(&self.webhook_allow).map_err(|why| format!("webhook_allow {why}"))?;
        Backoff::parse(&self.webhook_backoff).map_err(|why| format!("webhook_backoff {why}"))?;
        if !(1..=WEBHOOK_TIMEOUT_MS_MAX).contains(&self.webhook_timeout_ms) {
            return Err(format!("webhook_timeout_ms must be 1 to {WEBHOOK_TIMEOUT_MS_MAX}"));
        }
        Ok(())
    }

    /// Where the database is. Nothing of a URL is repeated but its scheme: it may hold a password.
    fn check_urls(&self) -> Result<(), String> {
        const FORMS: &str = "postgres://user:password@host/database";
        if let Some(url) = &self.database_url {
            let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
            match scheme {
                "postgres" | "postgresql" => check_postgres("database_url", url)?,
                "" | "sqlite" if !may_hold_credentials(rest) => {}
                "" | "sqlite" => {
                    return Err(format!(
                        "database_url must be {FORMS}, sqlite:///path or a path; this is none of them"
                    ));
                }
                _ => {
                    let known = format!("it must be {FORMS}, sqlite:///path or a path");
                    return Err(format!("database_url: {}; {known}", unknown_scheme(scheme)));
                }
            }
        }
        match &self.listen_url {
            Some(url) if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
                check_postgres("listen_url", url)
            }
            Some(_) => Err(format!("listen_url must be a URL like {FORMS}")),
            None => Ok(()),
        }
    }

    /// Limits that would allow nothing at all, or more than can be counted.
    fn check_limits(&self) -> Result<(), String> {
        let positive = [
            ("database_connections", self.database_connections as u64),
            ("payload_bytes_max", self.payload_bytes_max as u64),
            ("journal_bytes_max", self.journal_bytes_max),
            ("body_bytes_max", self.body_bytes_max as u64),
            ("batch_bytes_max", self.batch_bytes_max as u64),
            ("bodies_bytes_max", self.bodies_bytes_max as u64),
            ("answers_bytes_max", self.answers_bytes_max as u64),
            ("payload_depth_max", self.payload_depth_max as u64),
            ("connections_max", self.connections_max as u64),
            ("connections_per_address_max", self.connections_per_address_max as u64),
            ("requests_per_address_max", self.requests_per_address_max as u64),
            ("artifact_bytes_max", self.artifact_bytes_max),
            ("cache_bytes_max", self.cache_bytes_max),
            ("upload_expiry_ms", self.upload_expiry_ms),
            ("collect_every_ms", self.collect_every_ms),
            ("build_timeout_ms", self.build_timeout_ms),
            ("build_git_lease_ms", self.build_git_lease_ms),
            ("build_stuck_ms", self.build_stuck_ms),
            ("build_log_bytes_max", self.build_log_bytes_max),
            ("build_backlog_max", self.build_backlog_max),
            ("build_polls_burst", u64::from(self.build_polls_burst)),
            ("schedule_every_ms", self.schedule_every_ms),
            ("schedule_batch", self.schedule_batch as u64),
            ("schedule_runs_max", self.schedule_runs_max as u64),
            ("header_timeout_ms", self.header_timeout_ms),
            ("idle_timeout_ms", self.idle_timeout_ms),
            ("body_timeout_ms", self.body_timeout_ms),
            ("write_timeout_ms", self.write_timeout_ms),
            ("tls_handshake_timeout_ms", self.tls_handshake_timeout_ms),
        ];
        if let Some((name, _)) = positive.iter().find(|(_, value)| *value == 0) {
            return Err(format!("{name} must be at least 1"));
        }
        // Sizes are counted as the databases count.
        if self.payload_bytes_max > PAYLOAD_BYTES_MAX {
            return Err(format!("payload_bytes_max must be at most {PAYLOAD_BYTES_MAX}"));
        }
        if self.journal_bytes_max > JOURNAL_BYTES_MAX {
            return Err(format!("journal_bytes_max must be at most {JOURNAL_BYTES_MAX}"));
        }
        let backlogs = [("backlog_max", self.backlog_max), ("build_backlog_max", self.build_backlog_max)];
        match backlogs.iter().find(|(_, value)| *value > BACKLOG_MAX) {
            Some((name, _)) => Err(format!("{name} must be at most {BACKLOG_MAX}")),
            None => Ok(()),
        }
    }

    /// Spans that are added to moments, and spans that only make sense together.
    fn check_spans(&self) -> Result<(), String> {
        let spans = [
            ("lease_ttl_ms", self.lease_ttl_ms),
            ("heartbeat_interval_ms", self.heartbeat_interval_ms),
            ("cancel_grace_ms", self.cancel_grace_ms),
            ("build_heartbeat_timeout_ms", self.build_heartbeat_timeout_ms),
            ("build_timeout_ms", self.build_timeout_ms),
            ("build_git_lease_ms", self.build_git_lease_ms),
            ("build_poll_after_ms", self.build_poll_after_ms),
            ("build_stuck_ms", self.build_stuck_ms),
            ("upload_expiry_ms", self.upload_expiry_ms),
            ("collect_every_ms", self.collect_every_ms),
            ("collect_age_ms", self.collect_age_ms),
            ("draft_age_ms", self.draft_age_ms),
            ("webhook_disable_after_ms", self.webhook_disable_after_ms),
            ("session_idle_ms", self.session_idle_ms),
            ("session_max_ms", self.session_max_ms),
        ];
        if let Some((name, _)) = spans.iter().find(|(_, value)| *value > SPAN_MS_MAX) {
            return Err(format!("{name} must be at most {SPAN_MS_MAX}"));
        }
        if self.session_idle_ms.min(self.session_max_ms) < SESSION_MS_MIN {
            return Err(format!(
                "session_idle_ms ({}) and session_max_ms ({}) must be at least {SESSION_MS_MIN}: that a session is used is \
                 written down once a minute",
                self.session_idle_ms, self.session_max_ms
            ));
        }
        if self.heartbeat_interval_ms < 100 || self.lease_ttl_ms < 2 * self.heartbeat_interval_ms {
            return Err(format!(
                "lease_ttl_ms ({}) must be at least twice heartbeat_interval_ms ({}), and that at least 100: a worker \
                 may miss one heartbeat",
                self.lease_ttl_ms, self.heartbeat_interval_ms
            ));
        }
        if self.build_heartbeat_timeout_ms < (2 * self.build_poll_after_ms).max(1_000) {
            return Err(format!(
                "build_heartbeat_timeout_ms ({}) must be at least twice build_poll_after_ms ({}), and at least 1000: a \
                 builder may miss one poll",
                self.build_heartbeat_timeout_ms, self.build_poll_after_ms
            ));
        }
        Ok(())
    }

    /// Numbers with a fraction, which may be anything at all.
    fn check_shares(&self) -> Result<(), String> {
        let shares = [("health_cpu_max", self.health_cpu_max), ("health_memory_max", self.health_memory_max)];
        if let Some((name, _)) =
            shares.iter().find(|(_, share)| share.is_some_and(|share| !(0.0..=1.0).contains(&share)))
        {
            return Err(format!("{name} must be 0 to 1"));
        }
        for (name, rate) in [("bulk_rate", self.bulk_rate), ("bulk_rate_max", self.bulk_rate_max)] {
            if !(BULK_RATE_MIN..=BULK_RATE_MAX).contains(&rate) {
                return Err(format!("{name} must be {BULK_RATE_MIN} to {BULK_RATE_MAX} runs in a second"));
            }
        }
        match (0.0..=1_000_000.0).contains(&self.build_polls_per_second) {
            true => Ok(()),
            false => Err("build_polls_per_second must be 0 (no limit) to 1,000,000".into()),
        }
    }
}

fn check_postgres(key: &str, url: &str) -> Result<(), String> {
    match baton_store::postgres::hosts(url) {
        Ok(_) => Ok(()),
        Err(StoreError::Unusable(why)) => Err(format!("{key}: {why}")),
        Err(error) => Err(format!("{key}: {error}")),
    }
}
