//! Waiting for the end of something while the server may come and go.

use std::time::{Duration, Instant};

use baton::ClientError;
use tokio::time::sleep;

use crate::exit::Exit;
use crate::output::print_note;

/// How long one question waits on the server.
pub const WAIT: Duration = Duration::from_secs(30);
/// How long a server that does not answer is asked again.
const UNREACHABLE_MAX: Duration = Duration::from_secs(60);
/// How often it is told that a server does not answer.
const TELL_EVERY: Duration = Duration::from_secs(60);
/// Pause before it is asked again.
pub const PAUSE: Duration = Duration::from_secs(1);

/// Asks until the answer is about an end. A server that is away for a while is no reason to give up.
pub async fn until_ended<T>(
    ask: impl AsyncFn() -> Result<T, ClientError>,
    is_ended: impl Fn(&T) -> bool,
) -> Result<T, Exit> {
    let mut patience = Patience::new(Instant::now());
    loop {
        match ask().await {
            Ok(answer) if is_ended(&answer) => return Ok(answer),
            Ok(_) => patience.renew(Instant::now()),
            Err(error) => {
                if let Some(news) = patience.bear(error, Instant::now())? {
                    print_note(&news);
                }
                sleep(PAUSE).await;
            }
        }
    }
}

/// Asks until there is an answer, whatever it is: for what may be said again, and must not be lost
/// while a server restarts.
pub async fn until_answered<T>(ask: impl AsyncFn() -> Result<T, ClientError>) -> Result<T, ClientError> {
    let mut patience = Patience::new(Instant::now());
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error) => {
                if let Some(news) = patience.bear(error, Instant::now())? {
                    print_note(&news);
                }
                sleep(PAUSE).await;
            }
        }
    }
}

/// For how long a server has not answered, and when that was last told.
pub struct Patience {
    answered: Instant,
    told: Option<Instant>,
}

impl Patience {
    pub fn new(now: Instant) -> Patience {
        Patience { answered: now, told: None }
    }

    /// The server has answered.
    pub fn renew(&mut self, now: Instant) {
        *self = Patience::new(now);
    }

    /// Whether to ask again: the error, when that is of no use any more, or what is to be told of it, if anything is.
    pub fn bear(&mut self, error: ClientError, now: Instant) -> Result<Option<String>, ClientError> {
        if !error.is_transient() || now.duration_since(self.answered) > UNREACHABLE_MAX {
            return Err(error);
        }
        if self.told.is_some_and(|told| now.duration_since(told) < TELL_EVERY) {
            return Ok(None);
        }
        self.told = Some(now);
        Ok(Some(format!("{error}; still trying, for {} seconds", UNREACHABLE_MAX.as_secs())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn away() -> ClientError {
        ClientError::Unreachable("nobody answers".into())
    }

    #[test]
    fn an_outage_is_told_of_once_and_borne_for_a_minute() {
        let begun = Instant::now();
        let mut patience = Patience::new(begun);
        let after = |seconds| begun + Duration::from_secs(seconds);
        assert!(patience.bear(away(), begun).unwrap().unwrap().ends_with("; still trying, for 60 seconds"));
        for second in 1..60 {
            assert_eq!(patience.bear(away(), after(second)).unwrap(), None);
        }
        assert!(patience.bear(away(), after(61)).is_err());
        patience.renew(after(62));
        assert!(patience.bear(away(), after(63)).unwrap().is_some(), "another outage is news");
        let (code, message) = ("x".into(), "y".into());
        let refused = ClientError::Refused { status: 404, code, message, field: None, retry_after: None };
        assert!(patience.bear(refused, after(64)).is_err(), "an answer is an answer");
    }
}
