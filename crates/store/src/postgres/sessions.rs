//! Sessions of the dashboard, and links that begin one.

use async_trait::async_trait;
use baton_core::Millis;
use baton_core::token::Hash;
use tokio_postgres::Row;
use uuid::Uuid;

use super::params::params;
use super::pool::Outcome;
use super::{PostgresStore, rows, sql};
use crate::{
    NewSession, NewSigninLink, SESSIONS_MAX, SIGNIN_LINKS_MAX, Session, SessionHolder, SessionRef, Sessions,
    StoreResult,
};

#[async_trait]
impl Sessions for PostgresStore {
    async fn add_session(&self, session: NewSession) -> StoreResult<()> {
        self.database.within(self.insert_session(&session)).await
    }

    async fn session(&self, by: SessionRef, idle_ms: Millis) -> StoreResult<Option<Session>> {
        let (token, id) = match &by {
            SessionRef::Token(token) => (Some(token.as_slice()), None),
            SessionRef::Id(id) => (None, Some(*id)),
        };
        let now = self.database.fixed_now();
        let found = || async {
            let found = self.database.query(sql::READ_SESSION, params![now, token, id, idle_ms]).await?;
            found.first().map(read).transpose()
        };
        self.database.again(found).await
    }

    async fn touch_session(&self, id: Uuid, shown: Option<Hash>, grace_ms: Millis) -> StoreResult<()> {
        let (now, shown) = (self.database.fixed_now(), shown.as_ref().map(Hash::as_slice));
        let touch =
            || async { self.database.query(sql::TOUCH_SESSION, params![now, id, shown, grace_ms]).await.map(drop) };
        self.database.again(touch).await
    }

    async fn rotate_session(&self, id: Uuid, shown: Hash, token: Hash, age_ms: Millis) -> StoreResult<bool> {
        let (now, shown, token) = (self.database.fixed_now(), shown.as_slice(), token.as_slice());
        let params = params![now, id, shown, token, age_ms];
        let rotate = async { Ok(!self.database.query(sql::ROTATE_SESSION, params).await?.is_empty()) };
        self.database.within(rotate).await
    }

    async fn end_session(&self, id: Uuid) -> StoreResult<bool> {
        let end = async { Ok(!self.database.query(sql::END_SESSION, params![id]).await?.is_empty()) };
        self.database.within(end).await
    }

    async fn end_sessions(&self, key_id: &str) -> StoreResult<u64> {
        let end = async {
            self.database.query(sql::DROP_SIGNIN_LINKS, params![key_id]).await?;
            Ok(self.database.query(sql::END_SESSIONS, params![key_id]).await?.len() as u64)
        };
        self.database.within(end).await
    }

    async fn add_signin_link(&self, link: NewSigninLink) -> StoreResult<Millis> {
        self.database.within(self.insert_signin_link(&link)).await
    }

    async fn use_signin_link(&self, token: &Hash) -> StoreResult<Option<SessionHolder>> {
        let (now, token) = (self.database.fixed_now(), token.as_slice());
        let used = async {
            let found = self.database.query(sql::USE_SIGNIN_LINK, params![now, token]).await?;
            found.first().map(holder).transpose()
        };
        self.database.within(used).await
    }

    async fn forget_sessions(&self, idle_ms: Millis, limit: usize) -> StoreResult<u64> {
        let (now, limit) = (self.database.fixed_now(), limit as i64);
        let forget = async {
            let links = self.database.query(sql::FORGET_SIGNIN_LINKS, params![now, limit]).await?.len();
            Ok((self.database.query(sql::FORGET_SESSIONS, params![now, idle_ms, limit]).await?.len() + links) as u64)
        };
        self.database.within(forget).await
    }
}

impl PostgresStore {
    async fn insert_session(&self, session: &NewSession) -> Outcome<()> {
        let NewSession { id, token, holder, lives_ms } = session;
        let (now, token, key_hash) = (self.database.fixed_now(), token.as_slice(), key_hash(holder));
        let params = params![now, id, token, holder.key_id, key_hash, lives_ms];
        self.database.query(sql::ADD_SESSION, params).await?;
        // Two at the same moment may leave one too many; the next one ends it.
        let params = params![holder.key_id, SESSIONS_MAX as i64];
        self.database.query(sql::END_SURPLUS_SESSIONS, params).await.map(drop)
    }

    async fn insert_signin_link(&self, link: &NewSigninLink) -> Outcome<Millis> {
        let NewSigninLink { token, holder, lives_ms } = link;
        let (now, token, key_hash) = (self.database.fixed_now(), token.as_slice(), key_hash(holder));
        let params = params![now, token, holder.key_id, key_hash, lives_ms];
        let added = self.database.query(sql::ADD_SIGNIN_LINK, params).await?;
        let until = added.first().ok_or_else(|| rows::corrupt("a link"))?.try_get(0)?;
        let params = params![holder.key_id, SIGNIN_LINKS_MAX as i64];
        self.database.query(sql::DROP_SURPLUS_SIGNIN_LINKS, params).await?;
        Ok(until)
    }
}

fn key_hash(holder: &SessionHolder) -> Option<&[u8]> {
    holder.key_hash.as_ref().map(Hash::as_slice)
}

fn holder(row: &Row) -> Outcome<SessionHolder> {
    let hash: Option<&[u8]> = row.try_get("key_hash")?;
    let key_hash = hash.map(|hash| hash.try_into().map_err(|_| rows::corrupt("the hash of a key"))).transpose()?;
    Ok(SessionHolder { key_id: row.try_get("key_id")?, key_hash })
}

fn read(row: &Row) -> Outcome<Session> {
    let key = match row.try_get("is_key_good")? {
        true => Some((rows::json(row.try_get("scopes")?, "a key's scopes")?, row.try_get("namespace")?)),
        false => None,
    };
    Ok(Session {
        id: row.try_get("session_id")?,
        holder: holder(row)?,
        made_at: row.try_get("made_at")?,
        seen_at: row.try_get("seen_at")?,
        rotated_at: row.try_get("rotated_at")?,
        is_newest: row.try_get("is_newest")?,
        is_unused: row.try_get("is_unused")?,
        key,
        now: row.try_get("now")?,
    })
}
