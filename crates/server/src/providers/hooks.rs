//! Hooks of a pool, as far as a server can know whether they will be found.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::secrets::MASTER_KEY_VARIABLE;

/// The program that a hook begins with, where that can be told without being a shell.
fn program(hook: &str) -> Option<&str> {
    let hook = hook.trim_start();
    let end = hook.find(|c: char| c.is_whitespace() || ";&|<>()".contains(c)).unwrap_or(hook.len());
    let word = &hook[..end];
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@:,%".contains(c);
    (!word.is_empty() && !word.starts_with('-') && word.chars().all(is_plain)).then_some(word)
}

/// Whether a program is named by a path that begins at the directory of hooks.
fn is_local(program: &str) -> bool {
    program.starts_with("./") || program.starts_with("../")
}

/// Says what is wrong with a hook that no machine can find: the directory of a run is empty when it
/// begins.
pub(super) fn check_path(hook: &str) -> Result<(), String> {
    match program(hook) {
        Some(program) if program.contains('/') && !program.starts_with('/') && !is_local(program) => Err(format!(
            "hooks work in an empty directory of the run, and there is no {program}: begin it with / (or with ./, and it \
             is looked for in agent.hook_directory)"
        )),
        Some(_) | None => Ok(()),
    }
}

/// Says what is wrong with a hook that is to be found on this machine, `./...` in this directory.
pub(super) fn check_here(hook: &str, directory: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    let Some(program) = program(hook) else { return Ok(()) };
    if program.contains('/') {
        let path = directory.join(program);
        let shown = path.display();
        return match std::fs::metadata(&path) {
            Ok(found) if found.is_file() && found.permissions().mode() & 0o111 != 0 => Ok(()),
            Ok(found) if found.is_file() => Err(format!("{shown} is not executable: chmod +x it")),
            Ok(_) | Err(_) if is_local(program) => Err(format!(
                "there is no {shown}: ./ is {} (agent.hook_directory; where the server was started unless given)",
                directory.display()
            )),
            Ok(_) | Err(_) => Err(format!("there is no {shown} on this machine, where agents of this pool run")),
        };
    }
    // A word of the shell, one of its commands, or a program in the path: nobody knows that better
    // than the shell.
    let look = ["-c", "command -v \"$1\"", "sh", program];
    let found = Command::new("/bin/sh")
        .args(look)
        .env_remove(MASTER_KEY_VARIABLE)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match found {
        Ok(found) if !found.success() => Err(format!(
            "the shell finds no {program}: name it with its path, and begin that with / (or with ./, and it is looked for \
             in agent.hook_directory)"
        )),
        Ok(_) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_program_of_a_hook_is_known_where_that_is_plain() {
        for (hook, expected) in [
            (" ./register \"$BATON_RUN_ID\"", Some("./register")),
            ("/opt/ci/register.sh;true", Some("/opt/ci/register.sh")),
            ("echo hello > registration", Some("echo")),
            ("register|tee log", Some("register")),
            ("\"./my hook\"", None),
            ("TOKEN=x ./register", None),
            ("$HOME/register", None),
            ("# nothing", None),
            ("{ true; }", None),
            ("", None),
        ] {
            assert_eq!(program(hook), expected, "{hook}");
        }
    }

    #[test]
    fn what_an_empty_directory_cannot_have_is_told() {
        assert!(check_path("hooks/register x").unwrap_err().contains("there is no hooks/register"));
        for fine in ["./hooks/register", "../register", "/hooks/register", "register", "$X/register", ""] {
            assert_eq!(check_path(fine), Ok(()), "{fine}");
        }
    }

    #[test]
    fn a_hook_on_this_machine_is_there_and_can_be_run() {
        let directory = tempfile::tempdir().unwrap();
        let hook = directory.path().join("register");
        let absolute = hook.display().to_string();
        let said = |hook: &str| check_here(hook, directory.path());
        assert!(said("./register x").unwrap_err().contains("agent.hook_directory"));
        assert!(said(&absolute).unwrap_err().contains("there is no"));
        std::fs::write(&hook, "#!/bin/sh\n").unwrap();
        assert!(said("./register x").unwrap_err().contains("chmod +x"));
        std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o700)).unwrap();
        for fine in ["./register x", &absolute, "sleep 30", "if true; then echo x; fi", ": nothing", "", "$X"] {
            assert_eq!(said(fine), Ok(()), "{fine}");
        }
        assert!(
            said("no-such-program-anywhere x").unwrap_err().contains("the shell finds no no-such-program-anywhere")
        );
    }
}
