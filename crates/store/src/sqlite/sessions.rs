//! Sessions of the dashboard, and links that begin one.

use async_trait::async_trait;
use baton_core::Millis;
use baton_core::token::Hash;
use rusqlite::{Row, params};
use uuid::Uuid;

use super::{SqliteStore, rows, statements};
use crate::{
    NewSession, NewSigninLink, SESSIONS_MAX, SIGNIN_LINKS_MAX, Session, SessionHolder, SessionRef, Sessions,
    StoreResult,
};

#[async_trait]
impl Sessions for SqliteStore {
    async fn add_session(&self, session: NewSession) -> StoreResult<()> {
        self.write(move |sql| {
            let NewSession { id, token, holder, lives_ms } = session;
            let parameters = params![sql.now, id.as_bytes(), token, holder.key_id, holder.key_hash, lives_ms];
            sql.execute(statements::ADD_SESSION, parameters)?;
            sql.execute(statements::END_SURPLUS_SESSIONS, params![holder.key_id, SESSIONS_MAX as i64]).map(drop)
        })
        .await
    }

    async fn session(&self, by: SessionRef, idle_ms: Millis) -> StoreResult<Option<Session>> {
        let (token, id) = match by {
            SessionRef::Token(token) => (Some(token), None),
            SessionRef::Id(id) => (None, Some(*id.as_bytes())),
        };
        self.read(move |sql| {
            let now = sql.now;
            sql.row(statements::READ_SESSION, params![now, token, id, idle_ms], |row| session(row, now))
        })
        .await
    }

    async fn touch_session(&self, id: Uuid, shown: Option<Hash>, grace_ms: Millis) -> StoreResult<()> {
        self.write(move |sql| {
            sql.execute(statements::TOUCH_SESSION, params![sql.now, id.as_bytes(), shown, grace_ms]).map(drop)
        })
        .await
    }

    async fn rotate_session(&self, id: Uuid, shown: Hash, token: Hash, age_ms: Millis) -> StoreResult<bool> {
        self.write(move |sql| {
            let parameters = params![sql.now, id.as_bytes(), shown, token, age_ms];
            Ok(sql.execute(statements::ROTATE_SESSION, parameters)? > 0)
        })
        .await
    }

    async fn end_session(&self, id: Uuid) -> StoreResult<bool> {
        self.write(move |sql| Ok(sql.execute(statements::END_SESSION, params![id.as_bytes()])? > 0)).await
    }

    async fn end_sessions(&self, key_id: &str) -> StoreResult<u64> {
        let key_id = key_id.to_owned();
        self.write(move |sql| {
            sql.execute(statements::DROP_SIGNIN_LINKS, params![key_id])?;
            Ok(sql.execute(statements::END_SESSIONS, params![key_id])? as u64)
        })
        .await
    }

    async fn add_signin_link(&self, link: NewSigninLink) -> StoreResult<Millis> {
        self.write(move |sql| {
            let NewSigninLink { token, holder, lives_ms } = link;
            let parameters = params![sql.now, token, holder.key_id, holder.key_hash, lives_ms];
            let until = sql.one(statements::ADD_SIGNIN_LINK, parameters, |row| row.get(0))?;
            sql.execute(statements::DROP_SURPLUS_SIGNIN_LINKS, params![holder.key_id, SIGNIN_LINKS_MAX as i64])?;
            Ok(until)
        })
        .await
    }

    async fn use_signin_link(&self, token: &Hash) -> StoreResult<Option<SessionHolder>> {
        let token = *token;
        self.write(move |sql| {
            sql.row(statements::USE_SIGNIN_LINK, params![sql.now, token], |row| {
                Ok(SessionHolder { key_id: row.get(0)?, key_hash: row.get(1)? })
            })
        })
        .await
    }

    async fn forget_sessions(&self, idle_ms: Millis, limit: usize) -> StoreResult<u64> {
        self.write(move |sql| {
            let limit = limit as i64;
            let links = sql.execute(statements::FORGET_SIGNIN_LINKS, params![sql.now, limit])?;
            Ok((sql.execute(statements::FORGET_SESSIONS, params![sql.now, idle_ms, limit])? + links) as u64)
        })
        .await
    }
}

fn session(row: &Row<'_>, now: Millis) -> rusqlite::Result<Session> {
    let key = if row.get(10)? { Some((rows::json(row, 8)?, row.get(9)?)) } else { None };
    Ok(Session {
        id: Uuid::from_bytes(row.get(0)?),
        holder: SessionHolder { key_id: row.get(1)?, key_hash: row.get(2)? },
        made_at: row.get(3)?,
        seen_at: row.get(4)?,
        rotated_at: row.get(5)?,
        is_newest: row.get(6)?,
        is_unused: row.get(7)?,
        key,
        now,
    })
}
