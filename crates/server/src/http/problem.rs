//! Refusals: `{error, code}` for everybody, and problem details (RFC 9457) for callers that accept them.

use std::fmt::Write;

use axum::body::Body;
use axum::response::Response;
use baton_proto::{Problem, ProblemDetails};
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::answer;
use crate::answers::Answer;

/// How problem details are called.
const DETAILS: &str = "application/problem+json";
/// Where codes are explained.
const PAGE: &str = "/docs/errors";

/// A refusal, as those see it who accept nothing else.
pub(super) fn refusal(status: StatusCode, problem: Problem) -> Response {
    let request_id = Answer::current_request_id().map(|id| id.to_string());
    let problem = Problem { request_id, trace_id: Answer::current_trace_id(), ..problem };
    let mut response = answer(status, &problem);
    response.extensions_mut().insert(problem);
    response
}

/// A refusal as problem details, for a caller that accepts them.
pub(super) fn in_detail(response: Response) -> Response {
    let Some(problem) = response.extensions().get::<Problem>().cloned() else { return response };
    let (mut head, _) = response.into_parts();
    let details = details(head.status, problem);
    head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(DETAILS));
    head.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(head, Body::from(serde_json::to_vec(&details).unwrap_or_default()))
}

/// True for a caller that accepts problem details.
pub(super) fn accepts(headers: &HeaderMap) -> bool {
    let lists = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|one| {
        let mut parts = one.split(';').map(str::trim);
        let is_named = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case(DETAILS));
        // A weight of 0 says that it is not wanted.
        let weight = |parameter: &str| {
            let (name, value) = parameter.split_once('=')?;
            name.trim().eq_ignore_ascii_case("q").then(|| value.trim().parse::<f32>().ok())?
        };
        is_named && parts.find_map(weight) != Some(0.0)
    })
}

fn details(status: StatusCode, problem: Problem) -> ProblemDetails {
    let Problem { error, code, field, request_id, trace_id } = problem;
    let title = code.replace('_', " ");
    let title = title[..1].to_uppercase() + &title[1..];
    let (kind, status) = (format!("{PAGE}#{code}"), status.as_u16());
    ProblemDetails { kind, title, status, detail: error.clone(), code, field, request_id, trace_id, error }
}

/// docs/errors.md as a page on which every code can be pointed at.
pub(super) fn page() -> String {
    let mut page = String::from(
        "<!doctype html><html lang=en><meta charset=utf-8><title>Errors of Baton</title><h1>Errors of Baton</h1><table>",
    );
    let rows = include_str!("../../../../docs/errors.md").lines().filter(|line| line.starts_with("| `"));
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let codes = cells[0].split(',').map(|code| code.trim().trim_matches('`'));
        let codes = codes.map(|code| format!("<code id={code}>{code}</code>")).collect::<Vec<_>>().join(", ");
        let rest = cells[1..].iter().map(|cell| format!("<td>{}", escaped(cell))).collect::<String>();
        // Writing to a string cannot fail.
        let _ = write!(page, "<tr><td>{codes}{rest}");
    }
    page + "</table></html>"
}

/// A cell as text. Of a link, whose page is not here, its words are left.
fn escaped(text: &str) -> String {
    let mut parts = text.split("](");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once(')').map_or(part, |(_, rest)| rest));
    }
    plain.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace(['`', '['], "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_names_problem_details_gets_them() {
        for (accept, expected) in [
            ("application/problem+json", true),
            ("application/json, Application/Problem+JSON;q=0.9", true),
            ("application/problem+json;q=0", false),
            ("application/problem+json; Q = 0.00", false),
            ("application/problem+json; q=0.01", true),
            ("application/json", false),
            ("*/*", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(accepts(&headers), expected, "{accept}");
        }
        assert!(!accepts(&HeaderMap::new()));
    }

    #[test]
    fn every_code_has_its_place_on_the_page() {
        let page = page();
        for code in ["queue_full", "unknown_worker", "invalid", "method_not_allowed"] {
            assert!(page.contains(&format!("<code id={code}>")), "{code}");
        }
        assert!(!page.contains("]("), "links to files are no links here");
    }
}
