//! `baton settings`: settings that are changed while the servers run.

use baton::Client;
use baton::proto::{ChangeSettings, SettingList, SettingView};
use clap::{Args, Subcommand};
use serde_json::Value;

use crate::duration;
use crate::exit::Exit;
use crate::output::{Column, Format, Listing, Look, Table, or_dash};
use baton_core::did_you_mean::near;

#[derive(Subcommand)]
pub enum SettingsCommand {
    /// List the settings that can be changed, where each comes from, and what the server was started with.
    #[command(
        visible_alias = "ls",
        after_help = "Examples:
  baton settings list
  baton settings list --json

Wants an admin key that is good for all namespaces. docs/settings.md says what each setting is."
    )]
    List(ListArgs),
    /// Show one setting.
    #[command(after_help = "Examples:
  baton settings get build_heartbeat_timeout_ms
  baton settings get build_stuck_ms --json")]
    Get(GetArgs),
    /// Change settings, all or none; they are kept and hold on every server within seconds.
    #[command(after_help = "Examples:
  baton settings set build_heartbeat_timeout_ms=5m
  baton settings set lease_ttl_ms=60s heartbeat_interval_ms=20s  together, because one alone would be refused
  baton settings set storage_bytes_max=none build_platforms=ios,android

Spans of time may be written as 250ms, 10s, 5m, 1h30m or 2d.")]
    Set(SetArgs),
    /// Let settings be again what the servers were started with.
    #[command(after_help = "Examples:
  baton settings reset build_heartbeat_timeout_ms
  baton settings reset lease_ttl_ms heartbeat_interval_ms")]
    Reset(ResetArgs),
}

#[derive(Args)]
pub struct ListArgs {
    #[command(flatten)]
    listing: Listing,
}

#[derive(Args)]
pub struct GetArgs {
    /// The setting.
    name: String,
    #[command(flatten)]
    format: Format,
}

#[derive(Args)]
pub struct SetArgs {
    /// A setting and its new value; `none` where a setting may be none.
    #[arg(required = true, value_name = "NAME=VALUE", value_parser = assignment)]
    assignments: Vec<(String, Value)>,
    #[command(flatten)]
    format: Format,
}

#[derive(Args)]
pub struct ResetArgs {
    /// The settings.
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    format: Format,
}

/// Reads `name=value`. Whether the value fits is the server's to say.
fn assignment(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("NAME=VALUE is wanted")?;
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() {
        return Err("there is no name before the =".into());
    }
    if value == "none" {
        return Ok((name.into(), Value::Null));
    }
    if name.ends_with("_ms")
        && let Ok(span) = duration::parse(value)
    {
        return Ok((name.into(), (span.as_millis() as u64).into()));
    }
    // A number or a truth value; what is neither is a text.
    let read = serde_json::from_str(value).ok().filter(|value: &Value| value.is_number() || value.is_boolean());
    Ok((name.into(), read.unwrap_or_else(|| value.into())))
}

/// Carries out a command about settings.
pub async fn execute(client: &Client, command: SettingsCommand) -> Result<(), Exit> {
    match command {
        SettingsCommand::List(args) => {
            args.listing.show(async || client.settings().await, table).await?;
        }
        SettingsCommand::Get(args) => {
            let setting = find(client.settings().await?, &args.name)?;
            args.format.show(&setting, details);
        }
        SettingsCommand::Set(args) => {
            let names: Vec<String> = args.assignments.iter().map(|(name, _)| name.clone()).collect();
            if let Some(twice) = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name)) {
                return Err(Exit::usage(format!("{} is given twice", twice.1)));
            }
            let set = args.assignments.into_iter().collect();
            change(client, ChangeSettings { set, reset: vec![] }, &names, args.format).await?;
        }
        SettingsCommand::Reset(args) => {
            let wanted = ChangeSettings { reset: args.names.clone(), ..ChangeSettings::default() };
            change(client, wanted, &args.names, args.format).await?;
        }
    }
    Ok(())
}

/// Changes settings and shows those that were changed.
async fn change(client: &Client, wanted: ChangeSettings, names: &[String], format: Format) -> Result<(), Exit> {
    let all = client.change_settings(&wanted).await?;
    let settings = all.settings.into_iter().filter(|setting| names.contains(&setting.name)).collect();
    format.list(&SettingList { settings }, table);
    Ok(())
}

fn find(list: SettingList, name: &str) -> Result<SettingView, Exit> {
    let near: Vec<String> =
        near(name, list.settings.iter().map(|setting| setting.name.as_str())).into_iter().map(str::to_owned).collect();
    list.settings.into_iter().find(|setting| setting.name == name).ok_or_else(|| {
        let meant = match near.is_empty() {
            true => "`baton settings list` shows those there are.".to_owned(),
            false => format!("Did you mean {}?", near.join(" or ")),
        };
        Exit::not_found(format!("there is no setting {name} that can be changed while the server runs. {meant}"))
    })
}

/// A value as people write it.
fn shown(name: &str, value: &Value) -> String {
    match value {
        Value::Null => "none".into(),
        Value::String(text) => text.clone(),
        Value::Number(number) if name.ends_with("_ms") => match number.as_u64() {
            Some(ms) => format!("{ms} ({})", duration::show(ms)),
            None => number.to_string(),
        },
        other => other.to_string(),
    }
}

fn details(setting: &SettingView, look: Look) -> String {
    let mut table = Table::plain();
    table.field("name", Some(&setting.name));
    table.field("value", Some(shown(&setting.name, &setting.value)));
    table.field("from", Some(&setting.source));
    table.field("changed", setting.changed_at.map(|at| look.moment(at)));
    table.field("started with", Some(shown(&setting.name, &setting.default)));
    table.field("from", Some(&setting.default_source));
    table.render(look)
}

fn table(list: &SettingList, look: Look) -> Table {
    let mut table = Table::of([
        Column::key("setting"),
        Column::text("value"),
        Column::text("from"),
        Column::age("changed"),
        Column::text("started with"),
        Column::text("from").extra(),
    ]);
    for setting in &list.settings {
        table.row([
            setting.name.clone(),
            short(&setting.name, &setting.value),
            setting.source.clone(),
            or_dash(setting.changed_at.map(|at| look.age(at))),
            short(&setting.name, &setting.default),
            setting.default_source.clone(),
        ]);
    }
    table
}

/// A value as it can be typed again, with spans of time as such.
fn short(name: &str, value: &Value) -> String {
    match value.as_u64().filter(|_| name.ends_with("_ms")) {
        Some(ms) => duration::exact(ms),
        None => shown(name, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_read_as_what_they_look_like() {
        let value = |text: &str| assignment(text).map(|(_, value)| value);
        assert_eq!(assignment("a = 7"), Ok(("a".into(), json!(7))));
        assert_eq!(value("a=0.5"), Ok(json!(0.5)));
        assert_eq!(value("a=true"), Ok(json!(true)));
        assert_eq!(value("a=none"), Ok(json!(null)));
        assert_eq!(value("a=x=y"), Ok(json!("x=y")));
        assert_eq!(value("a=[1]"), Ok(json!("[1]")));
        assert_eq!(value("a_ms=1h30m"), Ok(json!(5_400_000)));
        assert_eq!(value("a_ms=250"), Ok(json!(250)));
        assert_eq!(value("a=1h"), Ok(json!("1h")), "no span of time");
        assert!(value("a").is_err() && value("=1").is_err());
    }
}
