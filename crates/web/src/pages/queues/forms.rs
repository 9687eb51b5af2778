//! What is done to queues: pause, resume, limits.

use std::str::FromStr;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::post;
use baton_proto::{PauseQueue, QueueLimits};
use baton_server::{App, Error, service};

use crate::format;
use crate::forms::Form;

/// The routes.
pub fn forms(router: Router<App>) -> Router<App> {
    router
        .route("/queues/{name}/pause", post(pause))
        .route("/queues/{name}/resume", post(resume))
        .route("/queues/{name}/limit", post(limit))
}

async fn pause(State(app): State<App>, Path(name): Path<String>, form: Form) -> Response {
    let paused = async {
        let for_ms = form.get("for_ms").map(str::parse).transpose();
        let for_ms = for_ms.map_err(|_| Error::field("for_ms", "must be a number"))?;
        let pause = PauseQueue { until: None, for_ms };
        let caller = &form.visitor.caller;
        service::queues::pause(&app, caller, form.namespace(), &name, pause).await?;
        Ok(format!("{} is paused; what runs goes on.", format::visible(&name)))
    };
    let paused = paused.await;
    form.answer(paused, form.get("next").unwrap_or("/queues"))
}

async fn resume(State(app): State<App>, Path(name): Path<String>, form: Form) -> Response {
    let resumed = service::queues::resume(&app, &form.visitor.caller, form.namespace(), &name).await;
    let said = resumed.map(|_| format!("{} hands out work again.", format::visible(&name)));
    form.answer(said, form.get("next").unwrap_or("/queues"))
}

async fn limit(State(app): State<App>, Path(name): Path<String>, form: Form) -> Response {
    let limited = async {
        let what = form.get("what").unwrap_or_default();
        let (limits, seen) = (limits(what, form.get("value"))?, limits(what, form.get("seen"))?);
        let caller = &form.visitor.caller;
        let queue = service::queues::limit_if(&app, caller, form.namespace(), &name, limits, seen).await?;
        let is = match what {
            "backlog_max" => format!("at most {} wait", format::number(queue.backlog_max)),
            "rate_per_second" => queue
                .rate_per_second
                .map_or_else(|| "as many a second as workers take".into(), |rate| format!("at most {rate} a second")),
            _ => queue.key_limit.map_or_else(
                || "as many of each key as there are".into(),
                |limit| format!("at most {limit} of each key"),
            ),
        };
        Ok(format!("{}: {is}.", format::visible(&name)))
    };
    let limited = limited.await;
    form.answer(limited, form.get("next").unwrap_or("/queues"))
}

/// A limit as it was typed; nothing is none.
fn limits(what: &str, value: Option<&str>) -> Result<QueueLimits, Error> {
    let typed = value.map(|value| value.replace([',', ' ', '\u{a0}'], "")).filter(|value| !value.is_empty());
    let mut limits = QueueLimits::default();
    match what {
        "backlog_max" => limits.backlog_max = Some(typed.as_deref().map(number).transpose()?),
        "rate_per_second" => limits.rate_per_second = Some(typed.as_deref().map(number).transpose()?),
        "key_limit" => limits.key_limit = Some(typed.as_deref().map(number).transpose()?),
        _ => return Err(Error::field("what", "must be backlog_max, rate_per_second or key_limit")),
    }
    Ok(limits)
}

fn number<T: FromStr>(typed: &str) -> Result<T, Error> {
    typed.parse().map_err(|_| Error::Invalid(format!("{typed:?} is no number of this kind; nothing was changed")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_people_type_them() {
        assert_eq!(limits("backlog_max", Some("1,284")).unwrap().backlog_max, Some(Some(1_284)));
        assert_eq!(limits("rate_per_second", Some("0.5")).unwrap().rate_per_second, Some(Some(0.5)));
        assert_eq!(limits("key_limit", None).unwrap().key_limit, Some(None));
        assert_eq!(limits("key_limit", Some(" ")).unwrap().key_limit, Some(None));
        for (what, value) in [("key_limit", "two"), ("backlog_max", "-1"), ("rate_per_second", "x"), ("other", "1")] {
            assert!(limits(what, Some(value)).is_err(), "{what} {value}");
        }
    }
}
