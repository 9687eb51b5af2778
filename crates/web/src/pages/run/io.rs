//! What went in, what came out, and what went wrong.

use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use baton_core::RunId;
use baton_server::service::sheet::{self, Payload, Sheet, Which};
use baton_server::service::workflows::read as workflow;
use baton_server::service::{self};
use baton_server::{App, Error};
use bytes::Bytes;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use maud::{Markup, html};

use crate::format;
use crate::parts::{self, icon};
use crate::session::Visitor;
use crate::view::View;

/// How much of a payload is shown.
const SHOWN_MAX: usize = 4_096;
/// Payloads up to here are put into lines before they are cut.
const PRETTY_MAX: usize = 64 << 10;
/// Bytes of what is no text that are shown.
const HEX_MAX: usize = 256;

/// Routes that send whole payloads.
pub fn downloads(router: Router<App>) -> Router<App> {
    super::custody::downloads(router).route("/runs/{id}/payload/{which}", get(download))
}

/// The panels: input, output, error, and what a workflow publishes.
pub async fn section(view: &View, sheet: &Sheet) -> Result<Markup, Error> {
    let record = &sheet.record;
    let published = sheet.published(&view.app).await?;
    let error = record.error.as_deref().filter(|error| !error.trim().is_empty());
    let has_ended = record.state.is_ended();
    Ok(html! {
        div.stack id="payload" {
            @if let Some(error) = error {
                section.panel aria-labelledby="error-title" {
                    header {
                        h2 id="error-title" { @if has_ended { "Error" } @else { "Last error" } }
                        @if let Some(reason) = record.reason { span.count { (reason.as_str()) } }
                        span.end { (copy(&lines(error))) }
                    }
                    div.body { (message(error)) }
                }
            }
            div.grid.g2 {
                (panel(view, sheet, "Input", "input", Some(&sheet.input), "None was given."))
                (panel(view, sheet, "Output", "output", sheet.output.as_ref(), match has_ended {
                    true => "None.",
                    false => "None yet: it comes when the run completes.",
                }))
            }
            @if let Some((payload, at)) = &published {
                section.panel aria-labelledby="published-title" {
                    header {
                        h2 id="published-title" { "What it shows" }
                        span.count { "since " (parts::clock(view, *at, format::Precision::Seconds)) }
                    }
                    div.body { (whole(view, sheet.run(), "published", payload)) }
                }
            }
        }
    })
}

fn panel(view: &View, sheet: &Sheet, title: &str, which: &str, payload: Option<&Payload>, none: &str) -> Markup {
    let payload = payload.filter(|payload| payload.size > 0);
    html! {
        section.panel aria-label=(title) {
            header {
                h2 { (title) }
                @if let Some(payload) = payload {
                    span.count { (format::bytes(payload.size)) }
                    span.end {
                        a.btn.small.icon.ghost href=(address(view, sheet.run(), which)) download
                            aria-label={ "Download the " (title.to_lowercase()) } { (icon("get")) }
                    }
                }
            }
            div.body {
                @match payload {
                    Some(payload) => (whole(view, sheet.run(), which, payload)),
                    None => p.none { (none) }
                }
            }
        }
    }
}

fn address(view: &View, run: RunId, which: &str) -> String {
    view.href(&format!("/runs/{run}/payload/{which}"))
}

fn copy(text: &str) -> Markup {
    html! {
        button.btn.small.icon.ghost type="button" data-do="copy" data-text=(text) aria-label="Copy" { (icon("copy")) }
    }
}

/// A payload, and where all of it is when it is cut.
pub fn whole(view: &View, run: RunId, which: &str, payload: &Payload) -> Markup {
    let download =
        html! { a.link href=(address(view, run, which)) download { "Download all " (format::bytes(payload.size)) } };
    let Some(bytes) = &payload.bytes else {
        return html! { p.soft { "It is too large to be kept in the database. " (download) } };
    };
    match std::str::from_utf8(bytes) {
        Err(_) => html! {
            pre.code { (hex(&bytes[..bytes.len().min(HEX_MAX)])) }
            p.hint { "It is no text: these are its first bytes. " (download) }
        },
        Ok(text) if text.len() <= PRETTY_MAX => html! {
            (parts::json_block(text))
            @if text.len() > SHOWN_MAX { p.hint { (download) } }
        },
        Ok(text) => {
            let cut = (0..=SHOWN_MAX).rfind(|at| text.is_char_boundary(*at)).unwrap_or(0);
            html! {
                pre.code dir="auto" { (lines(&text[..cut])) "…" }
                p.hint { "This is the beginning. " (download) }
            }
        }
    }
}

/// Text in lines, with control characters shown.
fn lines(text: &str) -> String {
    text.split('\n').map(|line| format::visible(line).into_owned()).collect::<Vec<_>>().join("\n")
}

/// Bytes as they are written in hexadecimal, sixteen in a line.
fn hex(bytes: &[u8]) -> String {
    let line = |(index, line): (usize, &[u8])| {
        let digits: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:04x}  {}", index * 16, digits.join(" "))
    };
    bytes.chunks(16).enumerate().map(line).collect::<Vec<_>>().join("\n")
}

/// An error message: its first line, then its causes.
pub fn message(text: &str) -> Markup {
    let (first, causes) = causes(text);
    html! {
        pre.code dir="auto" { (lines(first)) }
        @if !causes.is_empty() {
            h3 { "Because" }
            ol.causes { @for cause in causes { li dir="auto" { (lines(cause)) } } }
        }
    }
}

/// Takes a message apart where it says what it was caused by.
fn causes(text: &str) -> (&str, Vec<&str>) {
    let mut parts = text.split("\nCaused by: ").flat_map(|part| part.split("\ncaused by: "));
    let first = parts.next().unwrap_or_default().trim_end();
    (first, parts.map(str::trim_end).filter(|cause| !cause.is_empty()).collect())
}

async fn download(
    State(app): State<App>,
    visitor: Visitor,
    Path((id, which)): Path<(String, String)>,
) -> Result<Response, Error> {
    let bytes = found(&app, &visitor, &id, &which).await?;
    let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok();
    let (content_type, ending) = match (is_json, std::str::from_utf8(&bytes)) {
        (true, _) => ("application/json", "json"),
        (false, Ok(_)) => ("text/plain; charset=utf-8", "txt"),
        (false, Err(_)) => ("application/octet-stream", "bin"),
    };
    // The run is there, so its identifier is one; and `which` is one of ours.
    let name = format!("attachment; filename=\"{id}-{which}.{ending}\"");
    Ok(([(CONTENT_TYPE, content_type.to_owned()), (CONTENT_DISPOSITION, name)], bytes).into_response())
}

async fn found(app: &App, visitor: &Visitor, id: &str, which: &str) -> Result<Bytes, Error> {
    let run = service::run_id(id)?;
    let nothing = || Error::NotFound { what: "payload", id: which.to_owned() };
    match which {
        "input" => sheet::payload(app, &visitor.caller, run, Which::Input).await,
        "output" => sheet::payload(app, &visitor.caller, run, Which::Output).await,
        "published" => sheet::payload(app, &visitor.caller, run, Which::Published).await,
        step => {
            let position = step.strip_prefix("step-").and_then(|position| position.parse().ok()).ok_or_else(nothing)?;
            workflow::payload(app, &visitor.caller, run, None, workflow::Which::Output(position)).await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told_apart() {
        assert_eq!(causes("no answer"), ("no answer", vec![]));
        assert_eq!(causes("a\nb\nCaused by: c\ncaused by: d\n"), ("a\nb", vec!["c", "d"]));
        assert_eq!(causes(""), ("", vec![]));
    }

    #[test]
    fn what_is_no_text_is_shown_as_bytes() {
        assert_eq!(hex(&[0xff; 17]).lines().collect::<Vec<_>>()[1], "0010  ff");
    }
}
