//! Pages that change while somebody looks: a stream for each, made once for all who look at the same.
//!
//! A page is made again when something has happened at this server, or when it has not been looked at for a while: other
//! servers change the store, too. What has changed since is found by comparing its parts. Nobody is sent more than two
//! patches a second, and making pages never takes more than a small share of a processor.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use baton_core::Millis;
use baton_server::{App, Error, face};
use bytes::Bytes;
use futures_util::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, Uri};
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::page::{self, Split};
use crate::pages::{self, Place};
use crate::query::Query;
use crate::session::{CSRF_MARK, Visitor};
use crate::view::View;

/// A page is made again at most this often.
const PAUSE_MIN: Duration = Duration::from_millis(500);
/// A page that took a while is made again after this many times as long: so that it takes a few per cent of a processor.
const PAUSE_FACTOR: u32 = 25;
/// How often it is looked at whether something has happened.
const LOOK: Duration = Duration::from_millis(250);
/// How often a page is made again where other servers may change what it shows.
const SHARED: Duration = Duration::from_millis(2_500);
/// A sign of life for proxies, and for pages that want to know whether the server is there.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How often it is looked at whether the session is still good.
const CHECK: Duration = Duration::from_secs(5);
/// When a page that was cut off comes back. The script spreads them.
const RETRY_MS: u64 = 1_000;
/// Most pages that are followed at one server.
const STREAMS_MAX: usize = 1_000;

/// A page as it was at a moment.
#[derive(Clone, Debug)]
struct Shot {
    at: Millis,
    title: String,
    split: Arc<Split>,
    /// The same pages have the same numbers.
    number: u64,
}

/// What two who look have in common when they see the same.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Key {
    server: usize,
    key_id: String,
    scopes: String,
    namespace: String,
    address: String,
    base: String,
    zone: String,
}

/// Pages that somebody follows.
static FOLLOWED: Mutex<Option<HashMap<Key, watch::Receiver<Option<Shot>>>>> = Mutex::new(None);

/// What is sent to the script.
#[derive(Serialize)]
struct Patch<'a> {
    /// The store's clock.
    now: Millis,
    title: &'a str,
    /// Ids and new contents.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<(&'a str, String)>,
    /// All of the page, when it has other parts than before.
    #[serde(skip_serializing_if = "Option::is_none")]
    app: Option<String>,
}

/// Follows a page: `/live?at=/runs%3Fstate=failed`.
pub async fn follow(State(app): State<App>, visitor: Visitor, headers: HeaderMap, uri: Uri) -> Result<Response, Error> {
    let asked = Query::parse(uri.query().unwrap_or_default());
    let address = asked.get("at").unwrap_or("/").to_owned();
    let page: Uri = address.parse().map_err(|_| Error::field("at", "must be the address of a page"))?;
    let place = Place::of(page.path()).ok_or_else(|| Error::field("at", "must be the address of a page"))?;
    let view = View::of(&app, &visitor, &headers, &page).await?;
    let shots = shared(&view, place, address)?;
    let following = Following { app, visitor, shots, seen: None, checked: Instant::now(), has_begun: false };
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::from_stream(stream::unfold(following, next))).into_response())
}

/// The pages that those who look at the same share. The first one has them made.
fn shared(view: &View, place: Place, address: String) -> Result<watch::Receiver<Option<Shot>>, Error> {
    let key = Key {
        server: face::server_mark(&view.app),
        key_id: view.caller.key_id.clone(),
        scopes: format!("{:?}", view.caller.scopes),
        namespace: view.namespace.clone(),
        address,
        base: view.base.clone(),
        zone: view.zone.iana_name().unwrap_or_default().to_owned(),
    };
    let mut followed = FOLLOWED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let followed = followed.get_or_insert_default();
    if let Some(shots) = followed.get(&key).filter(|shots| shots.has_changed().is_ok()) {
        return Ok(shots.clone());
    }
    followed.retain(|_, shots| shots.has_changed().is_ok());
    if followed.len() >= STREAMS_MAX {
        return Err(Error::TooMany { retry_after_ms: 5_000 });
    }
    let (sender, shots) = watch::channel(None);
    followed.insert(key.clone(), shots.clone());
    tokio::spawn(make(view.clone(), place, sender, key));
    Ok(shots)
}

/// Makes a page again and again while somebody looks at it.
async fn make(mut view: View, place: Place, shots: watch::Sender<Option<Shot>>, key: Key) {
    let mut number = 0;
    loop {
        let changes = view.app.changes.count();
        let began = Instant::now();
        match view.again().await {
            Ok(later) => view = later,
            Err(error) => tracing::debug!(%error, "a page is not made again now"),
        }
        let page = pages::page(&view, &place).await;
        let (title, quiet) = (page.title.clone(), page.quiet);
        let split = Arc::new(Split::of(&page::app(&view, &page).0));
        let is_new = shots.borrow().as_ref().is_none_or(|shot| *shot.split != *split);
        if is_new {
            number += 1;
            shots.send_replace(Some(Shot { at: view.now, title, split, number }));
        }
        let pause = PAUSE_MIN.max(began.elapsed() * PAUSE_FACTOR);
        let longest = if face::is_store_shared(&view.app) { quiet.min(SHARED).max(pause) } else { quiet.max(pause) };
        tokio::time::sleep(pause).await;
        while view.app.changes.count() == changes && began.elapsed() < longest && !is_over(&view, &shots) {
            tokio::time::sleep(LOOK).await;
        }
        // The table has one receiver itself.
        if is_over(&view, &shots) {
            let mut followed = FOLLOWED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            // Again, under the lock: somebody may have come.
            if is_over(&view, &shots) {
                followed.get_or_insert_default().remove(&key);
                return;
            }
        }
    }
}

fn is_over(view: &View, shots: &watch::Sender<Option<Shot>>) -> bool {
    shots.receiver_count() <= 1 || view.app.stopping.is_cancelled()
}

/// Somebody who looks.
struct Following {
    app: App,
    visitor: Visitor,
    shots: watch::Receiver<Option<Shot>>,
    seen: Option<Shot>,
    checked: Instant,
    has_begun: bool,
}

async fn next(mut following: Following) -> Option<(Result<Bytes, Infallible>, Following)> {
    if !following.has_begun {
        following.has_begun = true;
        return Some((Ok(Bytes::from(format!("retry: {RETRY_MS}\n: live\n\n"))), following));
    }
    let silent_since = Instant::now();
    loop {
        if following.checked.elapsed() >= CHECK {
            following.checked = Instant::now();
            match following.visitor.again(&following.app).await {
                Ok(Some(visitor)) => following.visitor = visitor,
                Ok(None) => return None,
                Err(error) => tracing::debug!(%error, "whether a session is still good is asked later"),
            }
        }
        let shot = following.shots.borrow_and_update().clone();
        if let Some(shot) = shot.filter(|shot| following.seen.as_ref().is_none_or(|seen| seen.number != shot.number)) {
            let frame = patch(following.seen.as_ref(), &shot, &following.visitor.csrf);
            following.seen = Some(shot);
            return Some((Ok(frame), following));
        }
        if silent_since.elapsed() >= HEARTBEAT {
            return Some((Ok(Bytes::from_static(b"event: beat\ndata: 1\n\n")), following));
        }
        let stopping = following.app.stopping.clone();
        tokio::select! {
            () = stopping.cancelled() => return None,
            changed = following.shots.changed() => if changed.is_err() { return None },
            () = tokio::time::sleep(CHECK) => {}
        }
    }
}

/// What has changed between two pages. The first one is sent whole: something may have happened since the page was loaded.
fn patch(seen: Option<&Shot>, shot: &Shot, csrf: &str) -> Bytes {
    let own = |html: &str| html.replace(CSRF_MARK, csrf);
    let same_frame = seen.filter(|seen| {
        let ids = |shot: &Shot| shot.split.parts.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>();
        seen.split.frame == shot.split.frame && ids(seen) == ids(shot)
    });
    let patch = match same_frame {
        Some(seen) => {
            let both = seen.split.parts.iter().zip(&shot.split.parts);
            let changed = both.filter(|((_, was), (_, is))| was != is).map(|(_, (id, is))| (id.as_str(), own(is)));
            Patch { now: shot.at, title: &shot.title, parts: changed.collect(), app: None }
        }
        None => Patch { now: shot.at, title: &shot.title, parts: Vec::new(), app: Some(own(&shot.split.whole())) },
    };
    let data = serde_json::to_string(&patch).unwrap_or_default();
    Bytes::from(format!("event: patch\ndata: {data}\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shot(number: u64, html: &str) -> Shot {
        Shot { at: 7, title: "Runs".into(), split: Arc::new(Split::of(html)), number }
    }

    #[test]
    fn only_what_has_changed_is_sent() {
        let one = shot(1, "<b><!--part a--><p id=a>1</p><!--/part--><!--part b--><p id=b>1</p><!--/part--></b>");
        let two =
            shot(2, "<b><!--part a--><p id=a>1</p><!--/part--><!--part b--><p id=b>\u{1}csrf\u{1}</p><!--/part--></b>");
        let text = |frame: Bytes| String::from_utf8(frame.to_vec()).unwrap();
        let changed = text(patch(Some(&one), &two, "token"));
        assert!(changed.contains(r#""parts":[["b","<p id=b>token</p>"]]"#), "{changed}");
        assert!(!changed.contains("app"), "{changed}");
        let other = shot(3, "<b><!--part a--><p id=a>1</p><!--/part--></b>");
        assert!(text(patch(Some(&two), &other, "t")).contains(r#""app":"<b><p id=a>1</p></b>""#));
        assert!(text(patch(None, &one, "t")).contains(r#""app":"#));
    }
}
