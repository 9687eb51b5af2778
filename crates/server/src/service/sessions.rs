//! Sessions of the dashboard: somebody shows an API key or a link that signs in once, and gets a token for a cookie. What
//! a session may do is what its key may do now; it ends with its key, when nobody uses it, and when it is old.
//!
//! The token is replaced now and then. Which of two is good is the store's to say, so that it does not matter which
//! server is asked (docs/adr/0031).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use baton_core::Millis;
use baton_core::rate::Bucket;
use baton_core::token::{self, Hash};
use baton_proto::{SigninLink, Time};
use baton_store::{NewSession, NewSigninLink, Scope, Session, SessionHolder, SessionRef};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::audit;
use crate::auth::{ANONYMOUS, Caller, OPERATOR, SETTINGS_KEY_ID};
use crate::{App, Error};

/// How long a session is believed without asking the store: what ends it at another server takes this long to arrive.
const FRESH: Duration = Duration::from_secs(5);
/// How often it is written down that a session is in use.
const NOTE_EVERY_MS: Millis = 60_000;
/// When a session gets another token.
const ROTATE_MS: Millis = 60 * 60 * 1_000;
/// When it may get yet another one, because nobody has used the one before: it was lost on its way.
const LOST_MS: Millis = 60_000;
/// How long a token is good for once somebody has used the one after it: other tabs are on their way with it.
const GRACE_MS: Millis = 60_000;
/// How long a link is good for.
const LINK_MS: Millis = 10 * 60 * 1_000;
/// Most sessions remembered.
const SESSIONS_MAX: usize = 10_000;
/// Longest token that is looked at.
const TOKEN_BYTES_MAX: usize = 200;

/// Somebody who is signed in.
#[derive(Clone, Debug)]
pub struct SignedIn {
    /// Who, and what the key may do now.
    pub caller: Arc<Caller>,
    /// What forms of this session show. It stays the same when the token is replaced: pages are open for days.
    pub csrf: String,
    /// The token is old: [`rotate`] replaces it.
    pub is_stale: bool,
    id: Uuid,
}

#[derive(Debug)]
struct Remembered {
    signed_in: SignedIn,
    at: Instant,
    bucket: Bucket,
}

/// The sessions this server has seen lately, by what they were found by.
#[derive(Debug, Default)]
pub struct KnownSessions(Mutex<HashMap<SessionRef, Remembered>>);

impl KnownSessions {
    /// Forgets what is remembered, so that what ends sessions on this server counts at once.
    pub(crate) fn forget(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<SessionRef, Remembered>> {
        self.0.lock().expect("nobody panics while holding it")
    }

    fn forget_one(&self, id: Uuid) {
        self.lock().retain(|_, known| known.signed_in.id != id);
    }

    fn get(&self, app: &App, by: &SessionRef) -> Option<Result<SignedIn, Error>> {
        let mut known = self.lock();
        let known = known.get_mut(by).filter(|known| known.at.elapsed() < FRESH)?;
        Some(app.keys.within_rate(&mut known.bucket).map(|()| known.signed_in.clone()))
    }

    fn has_seen(&self, by: &SessionRef) -> bool {
        self.lock().contains_key(by)
    }

    fn keep(&self, app: &App, by: SessionRef, signed_in: &SignedIn) -> Result<(), Error> {
        let mut known = self.lock();
        if known.len() >= SESSIONS_MAX {
            known.clear();
        }
        let bucket = known.get(&by).map_or_else(|| app.keys.full_bucket(), |known| known.bucket);
        let new = Remembered { signed_in: signed_in.clone(), at: Instant::now(), bucket };
        app.keys.within_rate(&mut known.entry(by).insert_entry(new).into_mut().bucket)
    }
}

/// Begins a session for the holder of an API key, and ends the one that the browser had before. Returns the token.
pub async fn sign_in(app: &App, key: &str, from: Option<IpAddr>, before: Option<&str>) -> Result<String, Error> {
    let caller = app.keys.check(Some(key), from).await.inspect_err(|error| count(app, error))?;
    let holder = SessionHolder { key_id: caller.key_id.clone(), key_hash: Some(token::hash(key)) };
    begin(app, &caller, holder, "with the API key", before).await
}

/// Begins a session with a sign-in link. A link works once, for the first who uses it.
pub async fn sign_in_once(app: &App, link: &str, from: Option<IpAddr>, before: Option<&str>) -> Result<String, Error> {
    let (caller, holder) = take_link(app, link, from).await.inspect_err(|error| count(app, error))?;
    begin(app, &caller, holder, "with a link", before).await
}

/// Uses up a link, and returns whose session it begins.
async fn take_link(app: &App, link: &str, from: Option<IpAddr>) -> Result<(Caller, SessionHolder), Error> {
    let _turn = app.keys.turn(false, from).await?;
    let used = match link.len() <= TOKEN_BYTES_MAX {
        true => app.store.use_signin_link(&token::hash(link)).await?,
        false => None,
    };
    let refused = "Invalid link: it is not known, was used, or its time is over";
    let Some(holder) = used else { return Err(app.keys.refused(from, "sign-in link", refused).await) };
    let Some(caller) = holder_now(app, &holder).await? else {
        return Err(app.keys.refused(from, "sign-in link", "the API key of the link is not good any more").await);
    };
    Ok((caller, holder))
}

fn count(app: &App, error: &Error) {
    if matches!(error, Error::BadCredential(_)) {
        app.metrics.credential_refusals.inc();
    }
}

async fn begin(
    app: &App,
    caller: &Caller,
    holder: SessionHolder,
    how: &str,
    before: Option<&str>,
) -> Result<String, Error> {
    let (token, id) = (new_token(app), new_id(app));
    let lives_ms = Millis::try_from(app.current().session_max_ms).unwrap_or(Millis::MAX);
    app.store.add_session(NewSession { id, token: token::hash(&token), holder, lives_ms }).await?;
    audit::act(app, caller, "session.create", "dashboard", how, caller.namespace.as_deref()).await?;
    // Nobody can have somebody sign in to a session that they know: it is always a new one.
    if let Some(before) = before.filter(|before| before.len() <= TOKEN_BYTES_MAX) {
        let before = SessionRef::Token(token::hash(before));
        if let Some(session) = app.store.session(before, idle_ms(app)).await? {
            end(app, session.id).await?;
        }
    }
    Ok(token)
}

fn new_token(app: &App) -> String {
    let mut random = [0; 32];
    app.entropy.fill(&mut random);
    token::session(random)
}

/// Nobody is shown the id of a session: what its forms show is made of it.
fn new_id(app: &App) -> Uuid {
    let mut random = [0; 16];
    app.entropy.fill(&mut random);
    uuid::Builder::from_random_bytes(random).into_uuid()
}

fn idle_ms(app: &App) -> Millis {
    Millis::try_from(app.current().session_idle_ms).unwrap_or(Millis::MAX)
}

/// Whose session a token is; nothing when it is over, or its key is not good any more.
pub async fn find(app: &App, shown: &str, from: Option<IpAddr>) -> Result<Option<SignedIn>, Error> {
    if shown.len() > TOKEN_BYTES_MAX {
        return Ok(None);
    }
    let hash = token::hash(shown);
    let by = SessionRef::Token(hash);
    if let Some(known) = app.sessions.get(app, &by) {
        return known.map(Some);
    }
    let _turn = app.keys.turn(app.sessions.has_seen(&by), from).await?;
    let found = look_up(app, by, Some(hash)).await?;
    if found.is_none() {
        // Counted and not written down: most of these are cookies whose time is over.
        app.keys.may_write_down(from);
    }
    Ok(found)
}

/// The same session now; nothing when it has ended meanwhile. For pages that stay open: it counts as being used.
pub async fn again(app: &App, signed_in: &SignedIn) -> Result<Option<SignedIn>, Error> {
    let by = SessionRef::Id(signed_in.id);
    match app.sessions.get(app, &by) {
        Some(known) => known.map(Some),
        None => look_up(app, by, None).await,
    }
}

async fn look_up(app: &App, by: SessionRef, shown: Option<Hash>) -> Result<Option<SignedIn>, Error> {
    let found = app.store.session(by, idle_ms(app)).await?;
    let caller = found.as_ref().and_then(|session| caller_of(app, session));
    let (Some(session), Some(caller)) = (found, caller) else {
        app.sessions.lock().remove(&by);
        return Ok(None);
    };
    let caller = Arc::new(caller);
    let is_first_use = session.is_newest && session.is_unused;
    if is_first_use || session.now - session.seen_at >= NOTE_EVERY_MS {
        // What reads goes on when the store cannot be written.
        if let Err(error) = app.store.touch_session(session.id, shown, GRACE_MS).await {
            tracing::debug!(%error, key = caller.key_id, "that a session was used could not be noted");
        }
        app.keys.note_use(&caller);
    }
    let age_ms = if session.is_newest { ROTATE_MS } else { LOST_MS };
    let signed_in = SignedIn {
        caller,
        csrf: csrf(session.id),
        is_stale: session.now - session.rotated_at >= age_ms && (session.is_newest || session.is_unused),
        id: session.id,
    };
    app.sessions.keep(app, by, &signed_in)?;
    Ok(Some(signed_in))
}

fn csrf(id: Uuid) -> String {
    let sum = Sha256::new().chain_update(b"baton form\n").chain_update(id.as_bytes()).finalize();
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a session may do now; nothing when it has ended with its key.
fn caller_of(app: &App, session: &Session) -> Option<Caller> {
    let key_id = session.holder.key_id.as_str();
    if let Some((scopes, namespace)) = session.key.clone() {
        return Some(Caller { key_id: key_id.to_owned(), scopes, namespace });
    }
    without_key(app, &session.holder)
}

/// Callers that are no key of the store: the key in the settings, and anyone with access to the machine.
fn without_key(app: &App, holder: &SessionHolder) -> Option<Caller> {
    let is_good = match holder.key_id.as_str() {
        SETTINGS_KEY_ID => holder.key_hash.as_ref().is_some_and(|hash| app.keys.is_from_settings(hash)),
        OPERATOR => holder.key_hash.is_none(),
        _ => false,
    };
    is_good.then(|| Caller::administrator(&holder.key_id))
}

/// What somebody who holds a link may do now.
async fn holder_now(app: &App, holder: &SessionHolder) -> Result<Option<Caller>, Error> {
    if let Some(caller) = without_key(app, holder) {
        return Ok(Some(caller));
    }
    let known = match &holder.key_hash {
        Some(hash) => app.store.key(hash).await?,
        None => app.store.keys().await?.into_iter().find(|key| key.id == holder.key_id),
    };
    let good = known.filter(|key| key.id == holder.key_id && key.revoked_at.is_none() && !key.is_over);
    Ok(good.map(|key| Caller { key_id: key.id, scopes: key.scopes, namespace: key.namespace }))
}

/// Replaces a token that is old, and returns the new one; nothing when another request was faster, or it is not old.
pub async fn rotate(app: &App, signed_in: &SignedIn, shown: &str) -> Result<Option<String>, Error> {
    if !signed_in.is_stale {
        return Ok(None);
    }
    let token = new_token(app);
    let rotated = app.store.rotate_session(signed_in.id, token::hash(shown), token::hash(&token), LOST_MS).await?;
    app.sessions.forget_one(signed_in.id);
    Ok(rotated.then_some(token))
}

/// Ends a session: at once at this server, within seconds at others.
pub async fn sign_out(app: &App, signed_in: &SignedIn) -> Result<(), Error> {
    if end(app, signed_in.id).await? {
        let caller = &signed_in.caller;
        audit::act(app, caller, "session.end", "dashboard", "", caller.namespace.as_deref()).await?;
    }
    Ok(())
}

async fn end(app: &App, id: Uuid) -> Result<bool, Error> {
    let ended = app.store.end_session(id).await?;
    app.sessions.forget_one(id);
    Ok(ended)
}

/// Ends all sessions of a key, and takes back its links. Anybody may for their own key, an administrator for each that
/// they see. Returns how many sessions that were.
pub async fn end_all(app: &App, caller: &Caller, key_id: &str) -> Result<u64, Error> {
    let mut namespace = caller.namespace.clone();
    if caller.key_id != key_id {
        caller.has(Scope::Admin)?;
        let without_row = [SETTINGS_KEY_ID, OPERATOR].contains(&key_id) && caller.namespace.is_none();
        let known = app.store.keys().await?.into_iter().find(|key| key.id == key_id);
        let known = known.filter(|key| caller.namespace.is_none() || key.namespace == caller.namespace);
        if known.is_none() && !without_row {
            return Err(Error::NotFound { what: "key", id: key_id.into() });
        }
        namespace = known.and_then(|key| key.namespace);
    }
    let ended = app.store.end_sessions(key_id).await?;
    app.sessions.forget();
    audit::act(app, caller, "session.end_all", key_id, &format!("{ended} ended"), namespace.as_deref()).await?;
    Ok(ended)
}

/// Makes a link that signs in once, as the caller. `key` is the secret that the caller has shown, if it was one.
pub async fn create_link(app: &App, caller: &Caller, key: Option<&str>) -> Result<SigninLink, Error> {
    if caller.key_id == ANONYMOUS {
        return Err(crate::auth::refused("a link that signs in is only made for callers with an API key".into()));
    }
    let key_hash = key.map(token::hash);
    let holder = SessionHolder { key_id: caller.key_id.clone(), key_hash };
    let link = add_link(app, holder).await?;
    audit::act(app, caller, "signin_link.create", "dashboard", "", caller.namespace.as_deref()).await?;
    Ok(link)
}

/// Makes a link for the person who started the server: they have its data, and so may do everything.
pub async fn operator_link(app: &App) -> Result<SigninLink, Error> {
    let link = add_link(app, SessionHolder { key_id: OPERATOR.into(), key_hash: None }).await?;
    audit::write(app, "server", "signin_link.create", "dashboard", "printed at the start", None).await?;
    Ok(link)
}

async fn add_link(app: &App, holder: SessionHolder) -> Result<SigninLink, Error> {
    let mut random = [0; 32];
    app.entropy.fill(&mut random);
    let link = token::signin_link(random);
    let until =
        app.store.add_signin_link(NewSigninLink { token: token::hash(&link), holder, lives_ms: LINK_MS }).await?;
    Ok(SigninLink { path: format!("/signin/once/{link}"), expires_at: Time(until) })
}
