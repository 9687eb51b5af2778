//! Servers that somebody has logged in to, in a file that nobody else can read.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use baton_core::did_you_mean::near;
use serde::{Deserialize, Serialize};

use crate::exit::Exit;

/// The rights of the file: it has keys.
const MODE: u32 = 0o600;

/// A server, and the key to it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Context {
    pub url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<String>,
    /// A file with authorities that are trusted besides those of the system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// The fingerprint of the only certificate that is trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_pin: Option<String>,
}

/// All of them, and the one that is used when nobody says which.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contexts {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    #[serde(default)]
    pub contexts: BTreeMap<String, Context>,
}

/// Where they are: `$XDG_CONFIG_HOME/baton/contexts.toml`, or below `~/.config`.
pub fn path() -> Option<PathBuf> {
    let home = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let directory = home("XDG_CONFIG_HOME").or_else(|| home("HOME").map(|home| home.join(".config")))?;
    Some(directory.join("baton/contexts.toml"))
}

/// A URL as it is compared.
pub fn normal(url: &str) -> String {
    let url = url.trim().trim_end_matches('/');
    // Only scheme and host are the same in any case.
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            format!("{}://{}{path}", scheme.to_ascii_lowercase(), host.to_ascii_lowercase())
        }
        None => url.to_owned(),
    }
}

impl Contexts {
    /// Reads the file; without one there are none.
    pub fn load() -> Result<Contexts, Exit> {
        path().map_or_else(|| Ok(Contexts::default()), |path| Contexts::load_from(&path))
    }

    fn load_from(path: &Path) -> Result<Contexts, Exit> {
        let failed = |why: String| Exit::failed(format!("{}: {why}", path.display()));
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Contexts::default()),
            Err(error) => return Err(failed(format!("cannot be read: {error}"))),
        };
        let mode = fs::metadata(path)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            eprintln!(
                "baton: {} has the mode {mode:o}: others can read the keys in it; chmod 600 closes it",
                path.display()
            );
        }
        // By its line alone: the parser would quote it, with a key in it.
        toml::from_str(&text).map_err(|error: toml::de::Error| {
            let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            failed(format!("line {line} is wrong"))
        })
    }

    /// Changes the file, all of it or nothing. Commands that do so at the same time take turns.
    pub fn change(change: impl FnOnce(&mut Contexts) -> Result<(), Exit>) -> Result<(), Exit> {
        let path =
            path().ok_or_else(|| Exit::failed("neither XDG_CONFIG_HOME nor HOME says where contexts are kept"))?;
        // A link stays one: the file is where it leads.
        let path = fs::canonicalize(&path).unwrap_or(path);
        let failed = |error| Exit::failed(format!("{} cannot be written: {error}", path.display()));
        let _turn = turn(&path).map_err(failed)?;
        let mut all = Contexts::load_from(&path)?;
        change(&mut all)?;
        all.save_to(&path).map_err(failed)
    }

    fn save_to(&self, path: &Path) -> io::Result<()> {
        let text = toml::to_string_pretty(self).map_err(io::Error::other)?;
        make_directory(path)?;
        let draft = path.with_extension(format!("toml.{}", std::process::id()));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&draft)?;
        let mut write = || {
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&draft, path)
        };
        write().inspect_err(|_| _ = fs::remove_file(&draft))
    }

    /// The context with this name.
    pub fn get(&self, name: &str) -> Result<&Context, Exit> {
        self.contexts.get(name).ok_or_else(|| {
            let near = near(name, self.contexts.keys().map(String::as_str));
            let meant = match near.is_empty() {
                true => "`baton context list` shows those there are; `baton login URL` makes one.".to_owned(),
                false => format!("Did you mean {}?", near.join(" or ")),
            };
            Exit::not_found(format!("there is no context {name}. {meant}"))
        })
    }

    /// The context of a server, by its URL; the current one first.
    pub fn of_url(&self, url: &str) -> Option<&Context> {
        let current = self.current.as_ref().and_then(|name| self.contexts.get(name));
        current.into_iter().chain(self.contexts.values()).find(|context| normal(&context.url) == normal(url))
    }
}

fn make_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Waits until nobody else changes the file. The turn ends when this is dropped.
fn turn(path: &Path) -> io::Result<File> {
    make_directory(path)?;
    let name = path.with_extension("toml.lock");
    let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(MODE).open(name)?;
    lock.lock()?;
    Ok(lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(url: &str) -> Context {
        Context { url: url.into(), api_key: Some("bk_secret".into()), ca: None, tls_pin: None }
    }

    #[test]
    fn what_is_kept_is_read_again_and_nobody_else_can() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("deep/er/contexts.toml");
        assert!(Contexts::load_from(&path).is_ok_and(|none| none == Contexts::default()));
        let contexts =
            [("prod".to_owned(), context("https://baton.example")), ("a b".to_owned(), context("http://x:1"))];
        let kept = Contexts { current: Some("prod".into()), contexts: contexts.into() };
        for _ in 0..2 {
            kept.save_to(&path).unwrap();
            assert!(Contexts::load_from(&path).is_ok_and(|read| read == kept));
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no draft stays");
    }

    #[test]
    fn a_file_that_is_wrong_is_told_by_its_line_and_no_key() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("contexts.toml");
        for wrong in ["current = 'a'\napi_key = CANARY", "\n[contexts.a]\nurl = 1\nkey = 'CANARY'"] {
            fs::write(&path, wrong).unwrap();
            let said = format!("{:?}", Contexts::load_from(&path).err().unwrap());
            assert!(said.contains("line ") && !said.contains("CANARY"), "{said}");
        }
    }

    #[test]
    fn a_server_is_known_by_its_url() {
        let contexts =
            [("a".to_owned(), context("http://A.example:1/")), ("b".to_owned(), context("http://b.example"))];
        let all = Contexts { current: None, contexts: contexts.into() };
        assert!(all.of_url("HTTP://a.example:1").is_some());
        for other in ["http://a.example", "https://a.example:1", "http://a.example:1/x", "http://b.example.evil", ""] {
            assert!(all.of_url(other).is_none(), "{other}");
        }
        assert!(format!("{:?}", all.get("bb").err().unwrap()).contains("there is no context bb"));
    }
}
