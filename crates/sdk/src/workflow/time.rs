//! Moments and spans on the wire, and the server's clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// Milliseconds since 1970.
pub(crate) type Millis = i64;

pub(crate) fn duration(span: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        // Less than a billion.
        nanos: span.subsec_nanos() as i32,
    }
}

pub(crate) fn span(duration: &prost_types::Duration) -> Duration {
    Duration::new(u64::try_from(duration.seconds).unwrap_or(0), u32::try_from(duration.nanos).unwrap_or(0))
}

pub(crate) fn timestamp(at: Millis) -> prost_types::Timestamp {
    // The remainder is from 0 to 999.
    prost_types::Timestamp { seconds: at.div_euclid(1_000), nanos: at.rem_euclid(1_000) as i32 * 1_000_000 }
}

pub(crate) fn millis(at: &prost_types::Timestamp) -> Millis {
    at.seconds.saturating_mul(1_000).saturating_add(i64::from(at.nanos) / 1_000_000)
}

pub(crate) fn system_time(at: Millis) -> SystemTime {
    let span = Duration::from_millis(at.unsigned_abs());
    let moment = if at < 0 { UNIX_EPOCH.checked_sub(span) } else { UNIX_EPOCH.checked_add(span) };
    moment.unwrap_or(UNIX_EPOCH)
}

pub(crate) fn millis_of(at: SystemTime) -> Millis {
    match at.duration_since(UNIX_EPOCH) {
        Ok(span) => i64::try_from(span.as_millis()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |span| -span),
    }
}

/// The server's clock, as far as one can know it here: what it said once, and what has passed since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    server: Millis,
    here: Instant,
}

/// Further away than any process lives. Timers do not take arbitrary moments.
const FAR: Duration = Duration::from_secs(10 * 365 * 24 * 3_600);

impl Clock {
    pub(crate) fn new(server: Millis) -> Clock {
        Clock { server, here: Instant::now() }
    }

    pub(crate) fn now(&self) -> Millis {
        self.server.saturating_add(i64::try_from(self.here.elapsed().as_millis()).unwrap_or(i64::MAX))
    }

    /// When the server's clock shows this.
    pub(crate) fn instant(&self, at: Millis) -> Instant {
        let ahead = at.saturating_sub(self.server);
        match u64::try_from(ahead) {
            Ok(ahead) => self.here + Duration::from_millis(ahead).min(FAR),
            Err(_) => self.here,
        }
    }

    /// What the server's clock shows then.
    pub(crate) fn at(&self, instant: Instant) -> Millis {
        let ahead = instant.saturating_duration_since(self.here);
        self.server.saturating_add(i64::try_from(ahead.as_millis()).unwrap_or(i64::MAX))
    }
}

/// This long from now, or as good as never.
pub(crate) fn after(span: Duration) -> Instant {
    Instant::now() + span.min(FAR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_survive_the_wire() {
        for at in [0, 1, 999, 1_000, 1_789_000_000_123, -1, -1_001] {
            assert_eq!(millis(&timestamp(at)), at);
            assert_eq!(millis_of(system_time(at)), at);
        }
        let long = Duration::from_millis(90_061_001);
        assert_eq!(span(&duration(long)), long);
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_goes_on_from_what_the_server_said() {
        let clock = Clock::new(1_000);
        tokio::time::advance(Duration::from_millis(250)).await;
        assert_eq!(clock.now(), 1_250);
        assert_eq!(clock.instant(1_250), Instant::now());
        assert_eq!(clock.at(Instant::now() + Duration::from_millis(50)), 1_300);
        assert!(clock.instant(i64::MAX) > Instant::now());
    }
}
