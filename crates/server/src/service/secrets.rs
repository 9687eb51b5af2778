//! The installation's secret: how it stands, and a new generation of it.

use baton_core::Millis;
use baton_proto::{RotateSecret, RotatedSecret, SecretGeneration, SecretStatus, Time};
use baton_store::Scope;

use super::audit;
use super::news::News;
use crate::auth::{Caller, refused};
use crate::secrets::{MasterKeySource, OVERLAP_MS, mode_too_wide};
use crate::{App, Error};

/// Longest time that tokens of the generation before stay good.
const OVERLAP_MS_MAX: u64 = 90 * 24 * 60 * 60 * 1_000;

/// Where the master key is, and what it wraps.
pub async fn status(app: &App, caller: &Caller) -> Result<SecretStatus, Error> {
    may(caller)?;
    let standing = app.secrets.standing().await?;
    let source = app.secrets.source();
    let generations = standing.stored.generations;
    Ok(SecretStatus {
        key_id: generations.last().map(|newest| newest.key_id.clone()).unwrap_or_default(),
        source: source.kind().into(),
        place: source.place(),
        key_ids: standing.key_ids,
        mode_too_wide: source.file().and_then(mode_too_wide).map(|mode| format!("{mode:o}")),
        trouble: standing.trouble,
        makes_master_key: matches!(source, MasterKeySource::DataDirectory(_)) && !app.store.is_shared(),
        generations: generations
            .into_iter()
            .map(|one| SecretGeneration {
                generation: one.generation,
                key_id: one.key_id,
                made_at: Time(one.made_at),
                tokens_until: one.tokens_until.map(Time),
            })
            .collect(),
    })
}

/// Makes a new generation, and wraps all of them with the first key of the source.
pub async fn rotate(app: &App, caller: &Caller, wanted: RotateSecret) -> Result<RotatedSecret, Error> {
    may(caller)?;
    let overlap_ms = wanted.overlap_ms.unwrap_or(OVERLAP_MS as u64);
    if overlap_ms > OVERLAP_MS_MAX {
        return Err(Error::field("overlap_ms", "must be at most 90 days"));
    }
    let rotated = app.secrets.rotate(overlap_ms as Millis).await?;
    // Only a hint: others look every few seconds, and when they meet a generation that they do not know.
    let _ = app.news.try_send(News::Secrets);
    let key = match rotated.key_id == rotated.key_id_before {
        true => format!("wrapped with {}", rotated.key_id),
        false => format!("wrapped with {} instead of {}", rotated.key_id, rotated.key_id_before),
    };
    let detail = format!("{key}; tokens of those before are good for another {} s", overlap_ms / 1_000);
    audit::act(app, caller, "secret.rotate", &format!("generation {}", rotated.generation), &detail, None).await?;
    Ok(RotatedSecret { generation: rotated.generation, key_id: rotated.key_id, key_id_before: rotated.key_id_before })
}

/// It is that of all namespaces.
fn may(caller: &Caller) -> Result<(), Error> {
    caller.has(Scope::Admin)?;
    match &caller.namespace {
        Some(_) => Err(refused("the secret is for keys that are good for all namespaces".into())),
        None => Ok(()),
    }
}
