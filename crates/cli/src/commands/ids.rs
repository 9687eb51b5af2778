//! Short identifiers: the end of one, as tables show it, wherever a whole one is taken.

use std::fmt::Display;

use baton::proto::PAGE_MAX;
use baton::{Client, RunFilter, WorkerFilter};

use crate::exit::Exit;
use crate::output::{Look, Table};

/// Characters of the end of an identifier, at least and at most.
const SUFFIX_MIN: usize = 4;
const SUFFIX_MAX: usize = 12;
/// Characters of a whole identifier.
const ID_DIGITS: usize = 36;
/// Candidates that are listed when a short identifier may be any of several.
const CANDIDATES_MAX: usize = 10;
/// Pages of workers that are looked through.
const PAGES_MAX: usize = 100;

/// The end of an identifier that `word` is, or `None` if it is a whole one or something else.
pub fn suffix(word: &str) -> Option<String> {
    // As pages and other programs write them.
    let end = word.trim().trim_start_matches(['…', '.']);
    let is_short = (SUFFIX_MIN..=SUFFIX_MAX).contains(&end.len()) && end.bytes().all(|b| b.is_ascii_hexdigit());
    is_short.then(|| end.to_ascii_lowercase())
}

/// The whole identifier of a run.
pub async fn run(client: &Client, word: String) -> Result<String, Exit> {
    called(client, "run", word).await
}

/// The whole identifier of a build.
pub async fn build(client: &Client, word: String) -> Result<String, Exit> {
    called(client, "build", word).await
}

/// The whole identifier of a run of a workflow.
pub async fn workflow(client: &Client, word: String) -> Result<String, Exit> {
    called(client, "workflow", word).await
}

async fn called(client: &Client, what: &str, word: String) -> Result<String, Exit> {
    let Some(end) = suffix(&word) else { return whole(what, word) };
    // One more than is shown, to know whether there are more.
    let filter = RunFilter { id_suffix: Some(end.clone()), limit: Some(CANDIDATES_MAX + 1), ..RunFilter::default() };
    let mut runs = client.runs(&filter).await?.runs;
    runs.retain(|run| run.id.ends_with(&end));
    let look = Look::of_stdout(true);
    let candidate = |run: &baton::proto::RunView| {
        let id = run.id.clone();
        (id, vec![run.kind.clone(), run.state.as_str().to_owned(), format!("{} old", look.age(run.submitted_at))])
    };
    one(what, &word, runs.iter().map(candidate).collect())
}

/// The whole identifier of a worker.
pub async fn worker(client: &Client, word: String) -> Result<String, Exit> {
    let Some(end) = suffix(&word) else { return whole("worker", word) };
    let mut found = Vec::new();
    let mut filter = WorkerFilter { limit: Some(PAGE_MAX), ..WorkerFilter::default() };
    for _ in 0..PAGES_MAX {
        let page = client.workers(&filter).await?;
        let called = page.workers.into_iter().filter(|worker| worker.id.ends_with(&end));
        found.extend(called.map(|worker| (worker.id, vec![worker.name, worker.status])));
        filter.cursor = page.next_cursor;
        if filter.cursor.is_none() || found.len() > CANDIDATES_MAX {
            break;
        }
    }
    one("worker", &word, found)
}

/// The whole identifier of a bulk operation.
pub async fn bulk(client: &Client, word: String) -> Result<String, Exit> {
    let Some(end) = suffix(&word) else { return whole("bulk operation", word) };
    let (mut found, mut cursor) = (Vec::new(), None);
    for _ in 0..PAGES_MAX {
        let page = client.bulks(None, None, Some(PAGE_MAX), cursor.as_deref()).await?;
        let called = page.operations.into_iter().filter(|operation| operation.id.ends_with(&end));
        found.extend(called.map(|operation| (operation.id, vec![operation.action, operation.state])));
        cursor = page.next_cursor;
        if cursor.is_none() || found.len() > CANDIDATES_MAX {
            break;
        }
    }
    one("bulk operation", &word, found)
}

/// The id of a webhook, by its name or by the end of its id.
pub async fn webhook(client: &Client, word: String) -> Result<String, Exit> {
    if word.len() == ID_DIGITS && word.split('-').count() == 5 {
        return Ok(word);
    }
    let (end, mut found, mut cursor) = (suffix(&word), Vec::new(), None);
    for _ in 0..PAGES_MAX {
        let page = client.webhooks(None, Some(PAGE_MAX), cursor.as_deref()).await?;
        let is_meant = |id: &str, name: &str| name == word || end.as_ref().is_some_and(|end| id.ends_with(end));
        let meant = page.webhooks.into_iter().filter(|webhook| is_meant(&webhook.id, &webhook.name));
        found.extend(meant.map(|webhook| {
            let namespace = webhook.namespace.unwrap_or_else(|| "all namespaces".into());
            (webhook.id, vec![webhook.name, namespace])
        }));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    match found.is_empty() {
        true => Err(Exit::not_found(format!("there is no webhook {word}"))),
        false => one("webhook", &word, found),
    }
}

/// The whole identifier of a delivery of a webhook.
pub async fn delivery(client: &Client, webhook: &str, word: String) -> Result<String, Exit> {
    let Some(end) = suffix(&word) else { return whole("delivery", word) };
    let (mut found, mut cursor) = (Vec::new(), None);
    for _ in 0..PAGES_MAX {
        let page = client.webhook_deliveries(webhook, None, Some(PAGE_MAX), cursor.as_deref()).await?;
        let called = page.deliveries.into_iter().filter(|delivery| delivery.id.ends_with(&end));
        found.extend(called.map(|delivery| (delivery.id, vec![delivery.kind, delivery.state])));
        cursor = page.next_cursor;
        if cursor.is_none() || found.len() > CANDIDATES_MAX {
            break;
        }
    }
    one("delivery", &word, found)
}

/// A word that is no end of an identifier, unless it cannot be a whole one either.
fn whole(what: &str, word: String) -> Result<String, Exit> {
    let end = word.trim().trim_start_matches(['…', '.']);
    match end.len() {
        0 => Err(Exit::usage(format!("the id of the {what} is empty"))),
        1..SUFFIX_MIN if end.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            let why = format!("{end} is too little of an id: give at least the last {SUFFIX_MIN} characters");
            Err(Exit::usage(why))
        }
        _ => Ok(word),
    }
}

/// The only candidate; whoever may mean several is told which.
pub fn one(what: &str, word: &str, mut candidates: Vec<(String, Vec<impl Display>)>) -> Result<String, Exit> {
    match candidates.len() {
        0 => Err(Exit::not_found(format!("there is no {what} whose id ends with {word}"))),
        1 => Ok(candidates.remove(0).0),
        number => {
            let mut table = Table::plain();
            for (id, words) in candidates.iter().take(CANDIDATES_MAX) {
                let words = words.iter().map(ToString::to_string);
                table.row(std::iter::once(format!("  {id}")).chain(words));
            }
            let more = if number > CANDIDATES_MAX { "  and more\n" } else { "" };
            Err(Exit::usage(format!(
                "several {what}s have an id that ends with {word}; say more of it:\n{table}{more}"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_from_a_whole_identifier_and_from_names() {
        assert_eq!(suffix("afe123").as_deref(), Some("afe123"));
        assert_eq!(suffix("…AFE123").as_deref(), Some("afe123"));
        assert_eq!(suffix("...0c2be9d1aa").as_deref(), Some("0c2be9d1aa"));
        for other in ["0198c1f2-0000-7000-8000-00000cafe123", "abc", "nightly", "0123456789abc", ""] {
            assert_eq!(suffix(other), None, "{other}");
        }
    }

    #[test]
    fn who_may_mean_several_is_told_which() {
        let candidates = |number: usize| (0..number).map(|n| (format!("id-{n}"), vec!["running"])).collect::<Vec<_>>();
        assert_eq!(one("run", "afe1", candidates(1)), Ok("id-0".into()));
        let none = Exit::not_found("there is no run whose id ends with afe1");
        assert_eq!(one("run", "afe1", candidates(0)), Err(none));
        let said = one("run", "afe1", candidates(2)).unwrap_err();
        let words = "several runs have an id that ends with afe1; say more of it:\n  id-0  running\n  id-1  running\n";
        assert_eq!(said, Exit::usage(words));
        assert!(format!("{:?}", one("run", "afe1", candidates(11)).unwrap_err()).contains("and more"));
    }
}
