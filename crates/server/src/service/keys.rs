//! API keys: create, list, rotate, revoke. The first one is made by itself.

use std::io::Write;

use baton_core::{Millis, token};
use baton_proto::{CreateKey, CreatedKey, KeyView, RotateKey, Time, Whoami};
use baton_store::{Key, NewKey, Page, Rotation, Scope};

use super::{audit, check_name, page_of};
use crate::auth::{Caller, scope_name, scope_named};
use crate::{App, Error};

/// How long the secret before a rotation stays good unless somebody says otherwise.
const OVERLAP_MS: u64 = 24 * 60 * 60 * 1_000;
/// Longest overlap: two secrets are twice as likely to be found by somebody else.
const OVERLAP_MS_MAX: u64 = 90 * OVERLAP_MS;
/// Longest life that is not for ever: ten years.
const LIFE_MS_MAX: u64 = 3_650 * 24 * 60 * 60 * 1_000;

/// Makes a key. It is shown this once.
pub async fn create(app: &App, caller: &Caller, wanted: CreateKey) -> Result<CreatedKey, Error> {
    caller.has(Scope::Admin)?;
    check_name("name", &wanted.name)?;
    let namespace = wanted.namespace.or_else(|| caller.namespace.clone());
    if let Some(namespace) = &namespace {
        check_name("namespace", namespace)?;
        caller.may(Scope::Admin, namespace)?;
        app.namespaces.check("namespace", namespace)?;
    }
    if wanted.scopes.is_empty() {
        return Err(Error::field("scopes", "must name at least one of admin, submit, worker, read"));
    }
    let mut scopes = Vec::new();
    for word in &wanted.scopes {
        let scope = scope_named(word).ok_or_else(|| {
            Error::field("scopes", format!("must be some of admin, submit, worker and read, not {word:?}"))
        })?;
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    let lives_ms = life(wanted.expires_in_ms)?;
    let created = add(app, &wanted.name, scopes, namespace.clone(), lives_ms).await?;
    let detail = format!("{} ({})", wanted.name, wanted.scopes.join(", "));
    audit::act(app, caller, "key.create", &created.id, &detail, namespace.as_deref()).await?;
    Ok(created)
}

fn life(expires_in_ms: Option<u64>) -> Result<Option<Millis>, Error> {
    match expires_in_ms {
        Some(ms) if ms == 0 || ms > LIFE_MS_MAX => {
            Err(Error::field("expires_in_ms", "must be more than 0 and at most ten years"))
        }
        ms => Ok(ms.map(|ms| ms as Millis)),
    }
}

fn new_secret(app: &App) -> String {
    let mut random = [0; 20];
    app.entropy.fill(&mut random);
    token::api_key(random)
}

async fn add(
    app: &App,
    name: &str,
    scopes: Vec<Scope>,
    namespace: Option<String>,
    lives_ms: Option<Millis>,
) -> Result<CreatedKey, Error> {
    let key = new_secret(app);
    let id = format!("key_{:012x}", app.entropy.bits() & 0xffff_ffff_ffff);
    let (hash, name) = (token::hash(&key), name.into());
    let added = app.store.add_key(NewKey { id: id.clone(), hash, name, scopes, namespace, lives_ms }).await?;
    if added { Ok(CreatedKey { id, key }) } else { Err(Error::Internal) }
}

/// True when the key is of the caller's namespace, or the caller is good for all.
fn reaches(caller: &Caller, key: &Key) -> bool {
    caller.namespace.is_none() || key.namespace == caller.namespace
}

/// All keys the caller may see.
pub async fn list(app: &App, caller: &Caller, page: Page<String>) -> Result<(Vec<KeyView>, Option<String>), Error> {
    caller.has(Scope::Admin)?;
    let mut keys = app.store.keys().await?;
    keys.retain(|key| reaches(caller, key));
    let (keys, next) = page_of(keys, page, |key| key.id.clone())?;
    let shown = keys
        .into_iter()
        .map(|key| KeyView {
            id: key.id,
            name: key.name,
            scopes: key.scopes.into_iter().map(|scope| scope_name(scope).to_owned()).collect(),
            namespace: key.namespace,
            created_at: Time(key.created_at),
            good: key.revoked_at.is_none() && !key.is_over,
            revoked_at: key.revoked_at.map(Time),
            expires_at: key.expires_at.map(Time),
            used_at: key.used_at.map(Time),
            old_until: key.old_until.map(Time),
        })
        .collect();
    Ok((shown, next))
}

/// Who is calling. Any key may ask.
pub async fn whoami(app: &App, caller: &Caller) -> Result<Whoami, Error> {
    // The one in the settings is in no table.
    let known = app.store.keys().await?.into_iter().find(|key| key.id == caller.key_id);
    let (name, expires_at) = known.map_or_else(|| (caller.key_id.clone(), None), |key| (key.name, key.expires_at));
    Ok(Whoami {
        id: caller.key_id.clone(),
        name,
        scopes: caller.scopes.iter().map(|scope| scope_name(*scope).to_owned()).collect(),
        namespace: caller.namespace.clone(),
        expires_at: expires_at.map(Time),
    })
}

/// Gives a key another secret, which is shown this once. The one it has stays good for a while, so that whoever uses it can
/// take the new one in turn. Whatever the key has done and holds stays its own.
pub async fn rotate(app: &App, caller: &Caller, id: &str, wanted: RotateKey) -> Result<CreatedKey, Error> {
    caller.has(Scope::Admin)?;
    let overlap_ms = wanted.overlap_ms.unwrap_or(OVERLAP_MS);
    if overlap_ms > OVERLAP_MS_MAX {
        return Err(Error::field("overlap_ms", "must be at most 90 days"));
    }
    let lives_ms = life(wanted.expires_in_ms)?;
    let keys = app.store.keys().await?;
    let known = keys.into_iter().find(|key| key.id == id && reaches(caller, key));
    let Some(known) = known else { return Err(Error::NotFound { what: "key", id: id.into() }) };
    if known.revoked_at.is_some() {
        return Err(Error::Conflict(format!("the key {id} was revoked; make a new one")));
    }
    if known.is_over && lives_ms.is_none() {
        return Err(Error::Conflict(format!(
            "the time of the key {id} is over; say how long it is to live (expires_in_ms)"
        )));
    }
    let key = new_secret(app);
    let rotation = Rotation { hash: token::hash(&key), overlap_ms: overlap_ms as Millis, lives_ms };
    if !app.store.rotate_key(id, rotation).await? {
        return Err(Error::Conflict(format!("the key {id} was revoked in this very moment; make a new one")));
    }
    app.keys.forget();
    app.sessions.forget();
    let detail = format!("{}: the secret before is good for another {} s", known.name, overlap_ms / 1_000);
    audit::act(app, caller, "key.rotate", id, &detail, known.namespace.as_deref()).await?;
    Ok(CreatedKey { id: id.into(), key })
}

/// Revokes a key: at once on this server, within seconds on others. Its workers go offline. The last admin key only
/// goes when `force` says so.
pub async fn revoke(app: &App, caller: &Caller, id: &str, force: bool) -> Result<(), Error> {
    caller.has(Scope::Admin)?;
    let keys = app.store.keys().await?;
    let known = keys.iter().find(|key| key.id == id && reaches(caller, key));
    let Some(known) = known else { return Err(Error::NotFound { what: "key", id: id.into() }) };
    // Two administrators who revoke each other's key at the same moment both get past this: the look and the revocation
    // are two trips to the store. It guards against a slip, not against that; a key in the settings opens the door again.
    if !force && app.settings.api_key.is_none() && is_last_admin(known, &keys) {
        return Err(Error::LastAdminKey);
    }
    app.store.revoke_key(id).await?;
    app.store.end_sessions(id).await?;
    app.keys.forget();
    app.sessions.forget();
    super::workers::key_revoked(app, id, known.namespace.as_deref()).await?;
    audit::act(app, caller, "key.revoke", id, &known.name, known.namespace.as_deref()).await
}

/// True when no other good admin key reaches as far as this one. One that was revoked already is not the last.
fn is_last_admin(key: &Key, all: &[Key]) -> bool {
    let is_admin = |key: &Key| key.revoked_at.is_none() && !key.is_over && key.scopes.contains(&Scope::Admin);
    let covers = |other: &&Key| other.namespace.is_none() || other.namespace == key.namespace;
    is_admin(key) && !all.iter().filter(|other| other.id != key.id).filter(covers).any(is_admin)
}

/// Makes the first admin key when there is no key at all, and leaves it where the command line of this machine finds it.
/// Returns the key to be shown once.
pub async fn first(app: &App) -> Result<Option<String>, String> {
    let failed = |error: Error| format!("cannot make the first API key: {error}");
    if app.settings.api_key.is_some() || !app.store.keys().await.map_err(|e| failed(e.into()))?.is_empty() {
        return Ok(None);
    }
    let created = add(app, "first admin key", vec![Scope::Admin], None, None).await.map_err(failed)?;
    audit::write(app, "server", "key.create", &created.id, "first admin key", None).await.map_err(failed)?;
    let path = app.settings.admin_key_path();
    write_private(&path, &created.key)
        .map_err(|error| format!("cannot write the first API key to {}: {error}", path.display()))?;
    Ok(Some(created.key))
}

/// Writes a file that only its owner can read, whole or not at all.
fn write_private(path: &std::path::Path, text: &str) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let draft = path.with_extension("draft");
    let _ = std::fs::remove_file(&draft);
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    writeln!(file, "{text}")?;
    file.sync_all()?;
    std::fs::rename(&draft, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str, scope: Scope, namespace: Option<&str>, revoked_at: Option<i64>) -> Key {
        Key {
            id: id.into(),
            name: id.into(),
            scopes: vec![scope],
            namespace: namespace.map(str::to_owned),
            created_at: 0,
            revoked_at,
            expires_at: None,
            used_at: None,
            old_until: None,
            is_over: false,
        }
    }

    #[test]
    fn an_admin_key_is_the_last_when_no_other_reaches_as_far() {
        let root = key("root", Scope::Admin, None, None);
        let team = key("team", Scope::Admin, Some("team"), None);
        let others = [
            key("revoked", Scope::Admin, None, Some(1)),
            Key { is_over: true, ..key("over", Scope::Admin, None, None) },
            key("ci", Scope::Submit, None, None),
            key("elsewhere", Scope::Admin, Some("elsewhere"), None),
        ];
        let with = |more: &[&Key]| -> Vec<Key> { others.iter().chain(more.iter().copied()).cloned().collect() };
        assert!(is_last_admin(&root, &with(&[&root, &team])));
        assert!(!is_last_admin(&root, &with(&[&root, &key("second", Scope::Admin, None, None)])));
        assert!(!is_last_admin(&team, &with(&[&root, &team])), "whoever administers everything can make another");
        assert!(is_last_admin(&team, &with(&[&team])));
        assert!(!is_last_admin(&others[0], &others), "it is revoked already");
        assert!(!is_last_admin(&others[1], &others), "its time is over");
        assert!(!is_last_admin(&others[2], &others), "it is no admin key");
    }
}
