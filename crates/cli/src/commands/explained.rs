//! Waiting for the end of a run, and saying why nobody has it.

use std::convert::Infallible;
use std::time::Duration;

use baton::proto::Explanation;
use baton::{Client, ClientError, State};
use tokio::time::sleep;

use super::patience::until_ended;
use crate::exit::Exit;
use crate::output::print_note;

/// A run that nobody has after this long is worth a word.
pub const FIRST_LOOK: Duration = Duration::from_secs(2);
/// How often the reason is looked at after that.
pub const LOOK: Duration = Duration::from_secs(5);

/// As [`until_ended`], and tells on the error output why the run waits: after two seconds, and
/// whenever the reason changes.
pub async fn until_ended_explained<T>(
    client: &Client,
    run: &str,
    ask: impl AsyncFn() -> Result<T, ClientError>,
    is_ended: impl Fn(&T) -> bool,
) -> Result<T, Exit> {
    tokio::select! {
        ended = until_ended(ask, is_ended) => ended,
        never = tell(client, run) => match never {},
    }
}

/// Says why a run waits, as long as it does.
async fn tell(client: &Client, run: &str) -> Infallible {
    let mut told = Told::default();
    sleep(FIRST_LOOK).await;
    loop {
        match client.explain(run).await {
            Ok(explanation) => {
                if let Some(news) = told.news(&explanation) {
                    print_note(&news);
                }
            }
            Err(error) if error.is_transient() => {}
            // Not every key may ask. Whoever waits still gets to know the end.
            Err(_) => std::future::pending().await,
        }
        sleep(LOOK).await;
    }
}

/// The reason that was told last.
#[derive(Default)]
pub struct Told(Option<String>);

impl Told {
    /// What to say of a run that waits, unless it was said before.
    pub fn news(&mut self, explanation: &Explanation) -> Option<String> {
        if explanation.state != State::Pending {
            self.0 = None;
            return None;
        }
        // Its place changes all the time, and is no other reason.
        let code = explanation.reasons.first().map_or_else(String::new, |reason| reason.code.clone());
        if self.0.as_ref() == Some(&code) {
            return None;
        }
        self.0 = Some(code);
        Some(format!("still waiting: {}", explanation.summary))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reason_is_told_once_and_another_one_again() {
        let explanation = |state: &str, code: &str, message: &str| -> Explanation {
            let reasons = json!([{"code": code, "message": message}]);
            serde_json::from_value(json!({"id": "x", "state": state, "summary": message, "reasons": reasons})).unwrap()
        };
        let mut told = Told::default();
        let none = told.news(&explanation("pending", "no_worker", "no worker serves it"));
        assert_eq!(none.as_deref(), Some("still waiting: no worker serves it"));
        assert_eq!(told.news(&explanation("pending", "no_worker", "no worker serves it")), None);
        assert!(told.news(&explanation("pending", "position", "3 before it")).is_some());
        assert_eq!(told.news(&explanation("pending", "position", "2 before it")), None, "it moves on");
        assert_eq!(told.news(&explanation("running", "", "")), None);
        assert!(told.news(&explanation("pending", "no_worker", "its worker crashed")).is_some());
    }
}
