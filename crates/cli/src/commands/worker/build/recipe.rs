//! What is run to build: the worker's own command for a platform, or the project's.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

/// The file of a project that says how it is built.
pub const PROJECT_FILE: &str = "baton.toml";
const PROJECT_FILE_BYTES_MAX: u64 = 64 << 10;

/// The worker's own commands.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recipes {
    by_platform: BTreeMap<String, String>,
    for_all: Option<String>,
}

impl Recipes {
    /// Reads `ios=./build.sh` or `./build.sh`, for a worker of these platforms.
    pub fn parse(given: &[String], platforms: &[String]) -> Result<Recipes, String> {
        let mut recipes = Recipes::default();
        for text in given {
            match text.split_once('=') {
                Some((platform, command)) if platforms.iter().any(|known| known == platform) => {
                    let before = recipes.by_platform.insert(platform.into(), required(command)?);
                    before.map_or(Ok(()), |_| Err(format!("there are two recipes for {platform}")))?;
                }
                // Otherwise a misspelt platform would be a variable that nobody reads.
                Some((word, _)) if looks_like_a_platform(word) => {
                    let known = platforms.join(", ");
                    return Err(format!(
                        "{word} is no --platform of this worker ({known}); \
                         for a variable, write `env {word}=...`"
                    ));
                }
                _ => {
                    let before = recipes.for_all.replace(required(text)?);
                    before.map_or(Ok(()), |_| Err("there are two recipes for all platforms".to_owned()))?;
                }
            }
        }
        Ok(recipes)
    }

    /// The command for a platform: this worker's, or else that of the project in `source`.
    pub fn find(&self, platform: &str, source: &Path) -> Result<String, String> {
        match self.by_platform.get(platform).or(self.for_all.as_ref()) {
            Some(command) => Ok(command.clone()),
            None => of_project(platform, source),
        }
    }
}

fn required(command: &str) -> Result<String, String> {
    match command.trim() {
        "" => Err("a recipe must not be empty".into()),
        command => Ok(command.to_owned()),
    }
}

fn looks_like_a_platform(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

#[derive(Deserialize)]
struct Project {
    #[serde(default)]
    build: BTreeMap<String, ProjectBuild>,
}

#[derive(Deserialize)]
struct ProjectBuild {
    run: String,
}

fn of_project(platform: &str, source: &Path) -> Result<String, String> {
    let path = source.join(PROJECT_FILE);
    let hint = format!("add {PROJECT_FILE} with [build.{platform}] and run = \"...\"");
    // Not through a link: what it leads to on this machine is not the project's.
    let Ok(found) = fs::symlink_metadata(&path) else {
        return Err(format!("nobody says how to build this for {platform}: {hint}"));
    };
    if !found.is_file() || found.len() > PROJECT_FILE_BYTES_MAX {
        return Err(format!("{PROJECT_FILE} must be a file of at most {PROJECT_FILE_BYTES_MAX} bytes"));
    }
    let text = fs::read_to_string(&path).map_err(|error| format!("{PROJECT_FILE}: {error}"))?;
    let mut project: Project = toml::from_str(&text).map_err(|error| format!("{PROJECT_FILE}: {error}"))?;
    match project.build.remove(platform) {
        Some(build) => required(&build.run).map_err(|error| format!("{PROJECT_FILE}: {error}")),
        None => Err(format!("{PROJECT_FILE} has no recipe for {platform}: {hint}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(given: &[&str]) -> Result<Recipes, String> {
        let given: Vec<String> = given.iter().map(ToString::to_string).collect();
        Recipes::parse(&given, &["ios".into(), "android".into()])
    }

    fn project(text: &str) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(PROJECT_FILE), text).unwrap();
        directory
    }

    #[test]
    fn the_workers_own_command_wins_and_the_nearer_one_first() {
        let source = project("[build.ios]\nrun = 'theirs'\n");
        let find = |given: &[&str], platform| parse(given).unwrap().find(platform, source.path());
        let given = ["ios=make A=b", "CC=gcc make"];
        assert_eq!(find(&given, "ios").unwrap(), "make A=b");
        assert_eq!(find(&given, "android").unwrap(), "CC=gcc make");
        assert_eq!(find(&[], "ios").unwrap(), "theirs");
        assert!(find(&[], "android").unwrap_err().contains("[build.android]"));
    }

    #[test]
    fn a_slip_is_not_a_recipe() {
        assert!(parse(&["andriod=make"]).unwrap_err().contains("andriod is no --platform"));
        for wrong in [vec!["ios="], vec![" "], vec!["a", "b"], vec!["ios=a", "ios=b"]] {
            assert!(parse(&wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_project_file_is_a_file_of_the_project() {
        let none = Recipes::default();
        let empty = tempfile::tempdir().unwrap();
        assert!(none.find("ios", empty.path()).unwrap_err().starts_with("nobody says how"));
        assert!(none.find("ios", project("[build.ios]\nrun = ''").path()).unwrap_err().contains("empty"));
        assert!(none.find("ios", project("not toml").path()).is_err());
        // Whoever builds for others must not read its own files to them.
        let secret = project("[build.ios]\nrun = 'secret'");
        std::os::unix::fs::symlink(secret.path().join(PROJECT_FILE), empty.path().join(PROJECT_FILE)).unwrap();
        assert!(none.find("ios", empty.path()).unwrap_err().contains("must be a file"));
    }
}
