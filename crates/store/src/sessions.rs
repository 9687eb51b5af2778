//! Sessions of the dashboard, and links that begin one. docs/adr/0031 has the reasons.

use async_trait::async_trait;
use baton_core::Millis;
use baton_core::token::Hash;
use uuid::Uuid;

use crate::{Scope, StoreResult};

/// Most sessions of a key: beginning another ends the one that was not seen for longest.
pub const SESSIONS_MAX: usize = 100;
/// Most links of a key that wait to be used.
pub const SIGNIN_LINKS_MAX: usize = 20;

/// Whose a session is, or will be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionHolder {
    /// An API key's id, or a name that no key has.
    pub key_id: String,
    /// The hash of the secret that was shown. The session ends when that is not good any more; without one, when the key
    /// is not.
    pub key_hash: Option<Hash>,
}

/// A session to be begun.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewSession {
    /// Its id, which is never shown to anybody.
    pub id: Uuid,
    /// The hash of its token.
    pub token: Hash,
    /// Whose it is.
    pub holder: SessionHolder,
    /// How long it is good for at most.
    pub lives_ms: Millis,
}

/// What a session is found by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SessionRef {
    /// The hash of one of its tokens.
    Token(Hash),
    /// Its id.
    Id(Uuid),
}

/// A session that is not over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Session {
    /// Its id.
    pub id: Uuid,
    /// Whose it is.
    pub holder: SessionHolder,
    /// When it was begun.
    pub made_at: Millis,
    /// When it was last seen, give or take a minute.
    pub seen_at: Millis,
    /// When it was given its newest token.
    pub rotated_at: Millis,
    /// Found by its newest token.
    pub is_newest: bool,
    /// It has a token before, which ends when the newest one is used.
    pub is_unused: bool,
    /// What the key may do now and where, if there is a key and it is good.
    pub key: Option<(Vec<Scope>, Option<String>)>,
    /// The moment all this was true.
    pub now: Millis,
}

/// A link that signs in once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewSigninLink {
    /// The hash of its token.
    pub token: Hash,
    /// Whose session it begins.
    pub holder: SessionHolder,
    /// How long it is good for.
    pub lives_ms: Millis,
}

/// The verbs of sessions. Every [`crate::Store`] has them.
#[async_trait]
pub trait Sessions: Send + Sync {
    /// Begins a session.
    async fn add_session(&self, session: NewSession) -> StoreResult<()>;
    /// The session, unless it is over or was not seen for `idle_ms`. Whether its key is good is in the answer.
    async fn session(&self, by: SessionRef, idle_ms: Millis) -> StoreResult<Option<Session>>;
    /// Notes that a session was seen. When that was with its newest token, the one before is good for another `grace_ms`.
    async fn touch_session(&self, id: Uuid, shown: Option<Hash>, grace_ms: Millis) -> StoreResult<()>;
    /// Gives a session another token for the one that was shown, which stays good until the new one is used. False when it
    /// was given one less than `age_ms` ago, or is over.
    async fn rotate_session(&self, id: Uuid, shown: Hash, token: Hash, age_ms: Millis) -> StoreResult<bool>;
    /// Ends a session. False when it is over already.
    async fn end_session(&self, id: Uuid) -> StoreResult<bool>;
    /// Ends all sessions of a key, and takes back its links. Returns how many sessions that were.
    async fn end_sessions(&self, key_id: &str) -> StoreResult<u64>;
    /// Keeps a link. Returns until when it is good.
    async fn add_signin_link(&self, link: NewSigninLink) -> StoreResult<Millis>;
    /// Uses up a link. The first caller hears whose session it begins.
    async fn use_signin_link(&self, token: &Hash) -> StoreResult<Option<SessionHolder>>;
    /// Deletes sessions that are over or were not seen for `idle_ms`, and links that are over: at most `limit` of each.
    async fn forget_sessions(&self, idle_ms: Millis, limit: usize) -> StoreResult<u64>;
}
