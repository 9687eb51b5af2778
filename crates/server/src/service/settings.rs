//! Settings that are changed while the servers run.

use baton_proto::{ChangeSettings, SettingList, SettingView, Time};
use baton_store::{Scope, SettingChange};

use super::audit;
use crate::auth::{Caller, refused};
use crate::settings::{Shown, is_changeable, read_change};
use crate::{App, Error};

/// How often a change is tried anew because somebody else changed settings in between.
const TRIES_MAX: usize = 10;

/// The settings that can be changed, as they are now and as this server was started.
pub async fn list(app: &App, caller: &Caller) -> Result<SettingList, Error> {
    may(caller)?;
    app.refresh_settings().await?;
    show(app)
}

/// Changes settings, all or none, for all servers of the store.
pub async fn change(app: &App, caller: &Caller, wanted: ChangeSettings) -> Result<SettingList, Error> {
    may(caller)?;
    let changes = read(&wanted)?;
    check_audit(app, &changes)?;
    let mut tries = 0;
    loop {
        let stored = app.store.settings().await?;
        app.live.check(&stored, &changes).map_err(Error::Invalid)?;
        if app.store.change_settings(&stored, changes.clone()).await? {
            break;
        }
        tries += 1;
        if tries == TRIES_MAX {
            return Err(Error::Conflict("others keep changing settings; look at them and try again".into()));
        }
    }
    for change in &changes {
        match &change.value {
            Some(value) => audit::act(app, caller, "setting.set", &change.name, value, None).await?,
            None => audit::act(app, caller, "setting.reset", &change.name, "", None).await?,
        }
    }
    app.refresh_settings().await?;
    show(app)
}

/// Whoever may change settings could otherwise erase what they did.
fn check_audit(app: &App, changes: &[SettingChange]) -> Result<(), Error> {
    let least = app.current().retention_audit_ms_min;
    let kept = changes.iter().find(|change| change.name == "retention_audit_ms");
    let kept = kept.and_then(|change| change.value.as_deref()?.parse::<u64>().ok());
    match kept.filter(|kept| *kept < least) {
        Some(kept) => Err(Error::Invalid(format!(
            "retention_audit_ms must be at least {least}, not {kept}: the audit log is there for others than those who \
             write it; a server started with a lower retention_audit_ms_min allows it"
        ))),
        None => Ok(()),
    }
}

/// They hold in every namespace.
fn may(caller: &Caller) -> Result<(), Error> {
    caller.has(Scope::Admin)?;
    match &caller.namespace {
        Some(_) => Err(refused("settings are for keys that are good for all namespaces".into())),
        None => Ok(()),
    }
}

fn read(wanted: &ChangeSettings) -> Result<Vec<SettingChange>, Error> {
    let mut changes = Vec::with_capacity(wanted.set.len() + wanted.reset.len());
    for (name, value) in &wanted.set {
        changes.push(read_change(name, value).map_err(Error::Invalid)?);
    }
    for name in &wanted.reset {
        if !is_changeable(name) {
            return Err(Error::Invalid(format!(
                "there is no setting {name} that can be changed while the server runs"
            )));
        }
        if changes.iter().any(|change| change.name == *name) {
            return Err(Error::Invalid(format!("{name} is to be set or reset, and once")));
        }
        changes.push(SettingChange { name: name.clone(), value: None });
    }
    match changes.is_empty() {
        true => Err(Error::Invalid("nothing to change: give set, reset or both".into())),
        false => Ok(changes),
    }
}

/// A setting of the server that answers.
#[derive(Clone, PartialEq, Debug)]
pub struct ServerSetting {
    /// What holds now, and where it comes from. A secret is there as `***`.
    pub view: SettingView,
    /// True when it can be changed while the servers run.
    pub is_changeable: bool,
    /// True when it may hold a secret.
    pub is_secret: bool,
}

/// Every setting of the server that answers: those that can be changed first.
pub async fn all(app: &App, caller: &Caller) -> Result<Vec<ServerSetting>, Error> {
    let changeable = list(app, caller).await?.settings;
    let fixed = app.live.fixed().map_err(|why| {
        tracing::error!(why, "settings cannot be shown");
        Error::Internal
    })?;
    let fixed = fixed.into_iter().map(|fixed| ServerSetting {
        view: SettingView {
            name: fixed.name,
            value: fixed.value,
            source: fixed.source.into(),
            changed_at: None,
            default: fixed.default,
            default_source: "built in".into(),
        },
        is_changeable: false,
        is_secret: fixed.is_secret,
    });
    let changeable = changeable.into_iter().map(|view| ServerSetting { view, is_changeable: true, is_secret: false });
    Ok(changeable.chain(fixed).collect())
}

fn show(app: &App) -> Result<SettingList, Error> {
    let shown = app.live.shown().map_err(|why| {
        tracing::error!(why, "settings cannot be shown");
        Error::Internal
    })?;
    Ok(SettingList { settings: shown.into_iter().map(view).collect() })
}

fn view(shown: Shown) -> SettingView {
    SettingView {
        name: shown.name.into(),
        value: shown.value,
        source: shown.changed_at.map_or(shown.default_source, |_| "stored").into(),
        changed_at: shown.changed_at.map(Time),
        default: shown.default,
        default_source: shown.default_source.into(),
    }
}
