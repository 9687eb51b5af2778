//! Settings as people write them: in a file, and as variables of the environment.

use std::path::Path;

use baton_core::did_you_mean::near;
use baton_core::span;
use toml::de::DeTable;

/// Reads the settings file. What is wrong is told by its line: the parser would quote it, with a password in it.
pub(super) fn read(path: &Path, known: &toml::Table) -> Result<toml::Table, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read the settings file {}: {error}", path.display()))?;
    let mut table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let line = line(&text, error.span().map_or(0, |span| span.start));
        format!("the settings file {} is not TOML: line {line}: {}", path.display(), error.message())
    })?;
    for (key, value) in &mut table {
        let place = || format!("{}:{}", path.display(), line_of(&text, key));
        let Some(example) = known.get(key) else {
            return Err(format!("unknown setting `{key}` at {}{}", place(), meant(key, known, |name| name.to_owned())));
        };
        if let (true, Some(span)) = (is_span(key), value.as_str()) {
            *value = milliseconds(span).map_err(|why| format!("{key} at {}: {why}", place()))?;
        }
        if !is_like(value, example) {
            let wanted = if is_span(key) { "a whole number or a span like \"5s\"" } else { kind(example) };
            return Err(format!("{key} at {} must be {wanted}", place()));
        }
    }
    Ok(table)
}

/// Reads a variable of the environment as the type its key has.
pub(super) fn from_text(name: &str, key: &str, text: &str, example: &toml::Value) -> Result<toml::Value, String> {
    let wrong = |what: &str| format!("{name} must be {what}, not {text:?}");
    match example {
        toml::Value::Integer(_) => match text.parse() {
            Ok(number) => Ok(toml::Value::Integer(number)),
            Err(_) if is_span(key) => milliseconds(text).map_err(|_| wrong("a whole number or a span like 5s or 10m")),
            Err(_) => Err(wrong("a whole number")),
        },
        toml::Value::Float(_) => text.parse().map(toml::Value::Float).map_err(|_| wrong("a number")),
        toml::Value::Boolean(_) => text.parse().map(toml::Value::Boolean).map_err(|_| wrong("true or false")),
        toml::Value::Table(_) => {
            let table = format!("value = {text}").parse::<toml::Table>().ok();
            let table = table.and_then(|mut table| table.remove("value")).filter(toml::Value::is_table);
            table.ok_or_else(|| wrong("a table like { \"CN=worker-1\" = \"ID\" }"))
        }
        _ => Ok(toml::Value::String(text.into())),
    }
}

/// A variable that is no setting, and which one may be meant.
pub(super) fn unknown_variable(name: &str, key: &str, known: &toml::Table) -> String {
    let meant = meant(key, known, |key| format!("BATON_{}", key.to_ascii_uppercase()));
    let meant = if meant.is_empty() { "; docs/settings.md lists them".into() } else { meant };
    format!("the environment sets {name}, which is no setting of Baton{meant}")
}

fn meant(key: &str, known: &toml::Table, write: impl Fn(&str) -> String) -> String {
    let near: Vec<String> = near(key, known.keys().map(String::as_str)).into_iter().map(write).collect();
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) }
}

/// Whether a setting is a span of time: its name says so, as in `lease_ttl_ms` and `retention_audit_ms_min`.
fn is_span(key: &str) -> bool {
    key.split('_').any(|word| word == "ms")
}

fn milliseconds(text: &str) -> Result<toml::Value, String> {
    let ms = span::parse(text)?.as_millis();
    i64::try_from(ms).map(toml::Value::Integer).map_err(|_| format!("{text:?} is too long"))
}

fn is_like(value: &toml::Value, example: &toml::Value) -> bool {
    value.same_type(example) || (value.is_integer() && example.is_float())
}

fn kind(example: &toml::Value) -> &'static str {
    match example {
        toml::Value::String(_) => "a text, in quotes",
        toml::Value::Integer(_) => "a whole number",
        toml::Value::Float(_) => "a number",
        toml::Value::Boolean(_) => "true or false",
        toml::Value::Datetime(_) => "a moment",
        toml::Value::Array(_) => "a list",
        toml::Value::Table(_) => "a table",
    }
}

/// The line on which a key stands.
fn line_of(text: &str, key: &str) -> usize {
    let parsed = DeTable::parse(text).ok();
    let found = parsed.as_ref().and_then(|table| table.get_ref().keys().find(|name| name.get_ref().as_ref() == key));
    line(text, found.map_or(0, |name| name.span().start))
}

fn line(text: &str, place: usize) -> usize {
    text.get(..place).unwrap_or_default().matches('\n').count() + 1
}
