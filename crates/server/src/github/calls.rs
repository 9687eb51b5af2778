//! Calls of GitHub's API. What may pass by itself is tried again; what is said about the rest has no secret in it.

use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};

use super::secret::Secret;
use crate::Settings;
use crate::entropy::Entropy;

const VERSION_HEADER: &str = "x-github-api-version";
/// The version of the API that this is written for.
const VERSION: &str = "2022-11-28";
const ACCEPTED: &str = "application/vnd.github+json";
/// Pause before a call is made again; doubles each time.
const PAUSE_FIRST: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How long GitHub asks to be left alone after its secondary rate limit, when it does not say how
/// long.
const SECONDARY_LIMIT: Duration = Duration::from_secs(60);
/// How long one call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Most of an answer that is read.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Most of what GitHub says that is passed on.
const MESSAGE_CHARS_MAX: usize = 300;

/// Why GitHub did not do what it was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// It said something else.
    Answered {
        /// Its status.
        status: u16,
        /// What it said, for people.
        message: String,
        /// How long it does not want to be asked again, where it says so.
        after: Option<Duration>,
    },
    /// There was no answer that could be read, or nothing to ask with.
    Silent(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Answered { status, message, .. } if message.is_empty() => write!(f, "GitHub answered {status}"),
            Failure::Answered { status, message, .. } => write!(f, "GitHub answered {status}: {message}"),
            Failure::Silent(why) => f.write_str(why),
        }
    }
}

/// A failure, and whether the same call may go better later: after this long, or whenever.
struct Try {
    failure: Failure,
    again: Again,
}

enum Again {
    No,
    Soon,
    After(Duration),
}

impl Failure {
    /// How long GitHub does not want to be asked again, where it has said so.
    pub fn after(&self) -> Option<Duration> {
        match self {
            Failure::Answered { after, .. } => *after,
            Failure::Silent(_) => None,
        }
    }
}

/// The connections to GitHub.
#[derive(Debug, Default)]
pub struct Calls(OnceLock<reqwest::Client>);

impl Calls {
    /// Calls, and calls again for as long as that may help and the time allows.
    pub async fn until(
        &self,
        until: Instant,
        settings: &Settings,
        entropy: &dyn Entropy,
        method: Method,
        url: &str,
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        let token = settings.github_access().await.map_err(Failure::Silent)?;
        let mut pause = PAUSE_FIRST;
        loop {
            let late = || Try { failure: Failure::Silent("GitHub did not answer in time".into()), again: Again::Soon };
            let most = until.min(Instant::now() + CALL_TIMEOUT);
            let called = timeout_at(most, self.once(&token, &method, url, body)).await.unwrap_or_else(|_| Err(late()));
            let Try { failure, again } = match called {
                Ok(answer) => return Ok(answer),
                Err(tried) => tried,
            };
            // Servers that were refused together do not come back together.
            let jittered = pause.mul_f64(0.5 + entropy.die() / 2.0);
            let wait = match again {
                Again::No => return Err(failure),
                Again::Soon => jittered,
                Again::After(span) => span.max(jittered),
            };
            if Instant::now() + wait >= until {
                return Err(failure);
            }
            tracing::warn!(%method, url, %failure, "GitHub is asked again");
            sleep(wait).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn client(&self) -> Result<&reqwest::Client, Failure> {
        if let Some(client) = self.0.get() {
            return Ok(client);
        }
        // Without one the client panics. Another part of the program may have been first, which is just as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder()
            .user_agent(concat!("baton/", env!("CARGO_PKG_VERSION")))
            // Nobody but the address that was set gets the token.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| Failure::Silent(format!("GitHub cannot be called: {error}")))?;
        Ok(self.0.get_or_init(|| client))
    }

    async fn once(&self, token: &Secret, method: &Method, url: &str, body: Option<&Value>) -> Result<Value, Try> {
        let hard = |failure| Try { failure, again: Again::No };
        let mut shown = HeaderValue::from_str(&format!("Bearer {}", token.reveal()))
            .map_err(|_| hard(Failure::Silent("the token for GitHub has characters that no token has".into())))?;
        shown.set_sensitive(true);
        let mut request = self
            .client()
            .map_err(hard)?
            .request(method.clone(), url)
            .header(AUTHORIZATION, shown)
            .header(ACCEPT, ACCEPTED)
            .header(VERSION_HEADER, VERSION);
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/json").body(body.to_string());
        }
        let unreachable = |error: reqwest::Error| {
            let failure = Failure::Silent(format!("GitHub cannot be reached: {}", causes(&error.without_url())));
            Try { failure, again: Again::Soon }
        };
        let mut response = request.send().await.map_err(unreachable)?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let mut text = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            text.extend_from_slice(&chunk);
            if text.len() > ANSWER_BYTES_MAX {
                return Err(hard(Failure::Silent("GitHub's answer is too large".into())));
            }
        }
        let answer = serde_json::from_slice::<Value>(&text);
        if (200..300).contains(&status) {
            // What was deleted has nothing to say.
            let empty = text.is_empty().then_some(Value::Null);
            return answer.ok().or(empty).ok_or_else(|| hard(Failure::Silent("GitHub's answer is not JSON".into())));
        }
        let said = answer.ok().and_then(|answer| answer["message"].as_str().map(str::to_owned)).unwrap_or_default();
        let again = again(status, &headers, &said);
        let after = match again {
            Again::After(span) => Some(span),
            Again::Soon | Again::No => None,
        };
        Err(Try { failure: Failure::Answered { status, message: plain(&said, token), after }, again })
    }
}

/// Everything an error has to say: the outermost part seldom is the interesting one.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

/// What GitHub says, fit to be shown.
fn plain(said: &str, token: &Secret) -> String {
    let said = said.replace(token.reveal(), "***");
    said.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MESSAGE_CHARS_MAX).collect()
}

/// Whether an answer may be another one later.
fn again(status: u16, headers: &HeaderMap, said: &str) -> Again {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<u64>().ok();
    let is_exhausted = number("x-ratelimit-remaining") == Some(0);
    let told = number(RETRY_AFTER.as_str()).map(Duration::from_secs);
    let said = said.to_ascii_lowercase();
    let is_secondary = said.contains("rate limit") || said.contains("abuse");
    match status {
        // GitHub says the same for a rate limit as for something that is forbidden. Mostly the
        // headers tell them apart; of its secondary limit, only the words do.
        403 | 429 => match told {
            Some(span) => Again::After(span),
            None if is_exhausted => Again::After(number("x-ratelimit-reset").map_or(PAUSE_MAX, until)),
            None if is_secondary => Again::After(SECONDARY_LIMIT),
            None if status == 429 => Again::Soon,
            None => Again::No,
        },
        408 | 500.. => told.map_or(Again::Soon, Again::After),
        _ => Again::No,
    }
}

fn until(seconds: u64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Duration::from_secs(seconds).saturating_sub(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn a_rate_limit_passes_and_what_is_forbidden_does_not() {
        let forbidden = "Resource not accessible by personal access token";
        let again = |status, headers: &HeaderMap| again(status, headers, forbidden);
        assert!(matches!(again(403, &headers(&[])), Again::No));
        assert!(matches!(again(403, &headers(&[("x-ratelimit-remaining", "7")])), Again::No));
        assert!(matches!(again(403, &headers(&[("retry-after", "3")])), Again::After(span) if span.as_secs() == 3));
        let secondary = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.";
        let told = super::again(403, &headers(&[("x-ratelimit-remaining", "4321")]), secondary);
        assert!(matches!(told, Again::After(span) if span == SECONDARY_LIMIT), "it says so in words alone");
        let exhausted = headers(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1")]);
        assert!(matches!(again(403, &exhausted), Again::After(span) if span.is_zero()), "that moment has passed");
        for passing in [429, 500, 502, 503] {
            assert!(matches!(again(passing, &headers(&[])), Again::Soon), "{passing}");
        }
        for lasting in [301, 401, 404, 409, 422] {
            assert!(matches!(again(lasting, &headers(&[])), Again::No), "{lasting}");
        }
    }

    #[test]
    fn what_is_passed_on_has_no_secret_in_it() {
        let token = Secret::from("ghp_abc".to_owned());
        assert_eq!(plain("bad\ntoken ghp_abc", &token), "bad token ***");
        assert_eq!(format!("{token:?}"), "***");
        let failure = Failure::Answered { status: 403, message: "Resource not accessible".into(), after: None };
        assert_eq!(failure.to_string(), "GitHub answered 403: Resource not accessible");
    }
}
