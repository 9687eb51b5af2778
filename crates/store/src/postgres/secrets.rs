//! The installation's secret.

use super::PostgresStore;
use super::params::params;
use super::pool::Outcome;
use super::sql;
use crate::{SecretsChange, StoreError, StoredSecrets, WrappedSecret};

const INSTALLATION: &str = "installation";

impl PostgresStore {
    pub(super) async fn read_secrets(&self) -> Outcome<StoredSecrets> {
        stored(&self.database.query(sql::READ_SECRETS, params![self.database.fixed_now()]).await?)
    }

    pub(super) async fn write_secrets(&self, seen: &StoredSecrets, change: &SecretsChange) -> Outcome<bool> {
        let session = self.database.transaction().await?;
        session.query(sql::LOCK_SECRETS, &[]).await?;
        let now = self.database.fixed_now();
        if !stored(&session.query(sql::READ_SECRETS, params![now]).await?)?.are_same(seen) {
            session.roll_back().await?;
            return Ok(false);
        }
        if change.discard {
            session.query(sql::DELETE_SECRETS, &[]).await?;
        }
        let generations: Vec<i32> = change.write.iter().map(|(generation, ..)| *generation as i32).collect();
        let wrapped: Vec<&[u8]> = change.write.iter().map(|(_, wrapped, _)| wrapped.as_slice()).collect();
        let key_ids: Vec<&str> = change.write.iter().map(|(.., key_id)| key_id.as_str()).collect();
        session.query(sql::WRITE_SECRETS, params![now, generations, wrapped, key_ids]).await?;
        if let Some(overlap_ms) = change.overlap_ms {
            session.query(sql::END_TOKENS, params![now, overlap_ms]).await?;
        }
        if seen.plain.is_some() {
            // A row that is only deleted stays in the file until it is vacuumed, and longer while anybody has an older
            // snapshot.
            let facts = session.query(sql::LIST_META, &[]).await?;
            session.query(sql::EMPTY_META, &[]).await?;
            for fact in facts {
                let (key, value): (String, Vec<u8>) = (fact.try_get(0)?, fact.try_get(1)?);
                session.query(sql::KEEP_META, params![key, value.as_slice()]).await?;
            }
        }
        if let Some(installation) = &change.installation {
            session.query(sql::KEEP_META, params![INSTALLATION, installation.as_bytes()]).await?;
        }
        session.commit().await?;
        Ok(true)
    }
}

fn stored(rows: &[tokio_postgres::Row]) -> Outcome<StoredSecrets> {
    let damaged = || StoreError::Internal("the secret of this installation is damaged".to_owned());
    let first = rows.first().ok_or_else(damaged)?;
    let plain = first.try_get::<_, Option<Vec<u8>>>("plain")?.map(<[u8; 32]>::try_from);
    let installation: Option<Vec<u8>> = first.try_get("installation")?;
    let mut generations = Vec::with_capacity(rows.len());
    for row in rows {
        let Some(generation) = row.try_get::<_, Option<i32>>(0)? else { continue };
        generations.push(WrappedSecret {
            generation: u32::try_from(generation).map_err(|_| damaged())?,
            wrapped: row.try_get(1)?,
            key_id: row.try_get(2)?,
            made_at: row.try_get(3)?,
            tokens_until: row.try_get(4)?,
        });
    }
    Ok(StoredSecrets {
        plain: plain.transpose().map_err(|_| damaged())?,
        installation: installation.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
        generations,
        now: first.try_get("now")?,
    })
}
