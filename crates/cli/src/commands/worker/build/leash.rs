//! Nothing that builds outlives its worker, not even when the worker is killed with SIGKILL.
//!
//! A small shell outside of the build's groups reads from a pipe that only this worker writes to. It is told which groups there are.
//! When the pipe ends without a goodbye, it kills the groups and cleans up.

use std::io;
use std::process::Stdio;

use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

use super::isolation::{SHELL, Step};
use crate::own::{self, Own};

/// What the shell runs before it cleans up.
const WATCH: &str = "groups=
while read -r word rest; do
  case $word in
    holds) groups=$rest ;;
    done) exit 0 ;;
  esac
done
for group in $groups; do kill -s KILL -- \"-$group\" 2>/dev/null; done
";

/// Dropping it, or the death of this program, pulls it.
pub struct Leash {
    shell: Child,
    _own: Option<Own>,
    groups: Vec<u32>,
}

impl Leash {
    /// Begins to watch. `clean` is run when the leash is pulled.
    pub fn attach(clean: &[Step]) -> io::Result<Leash> {
        let mut command = Command::new(SHELL);
        command.arg("-c").arg(script(clean)).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // In a group of its own: Ctrl-C at the worker's terminal is not for it.
        command.process_group(0);
        super::run::without_baton(&mut command);
        let (shell, own) = own::spawn(&mut command)?;
        Ok(Leash { shell, _own: own, groups: Vec::new() })
    }

    /// Watches over a group, too.
    pub async fn hold(&mut self, group: u32) {
        self.groups.push(group);
        self.tell().await;
    }

    /// Forgets a group that is gone, before its number is somebody else's.
    pub async fn release(&mut self, group: u32) {
        self.groups.retain(|held| *held != group);
        self.tell().await;
    }

    async fn tell(&mut self) {
        let groups: Vec<String> = self.groups.iter().map(ToString::to_string).collect();
        self.write(&format!("holds {}\n", groups.join(" "))).await;
    }

    /// Everything has been stopped and cleaned up.
    pub async fn let_go(mut self) {
        self.write("done\n").await;
        let _ = self.shell.wait().await;
    }

    async fn write(&mut self, line: &str) {
        if let Some(pipe) = &mut self.shell.stdin {
            // Without the shell there is no leash; the build itself need not fail for that.
            if let Err(error) = pipe.write_all(line.as_bytes()).await {
                tracing::warn!(%error, "nobody watches over this build any more");
            }
        }
    }
}

fn script(clean: &[Step]) -> String {
    let lines = clean.iter().map(|step| {
        let words: Vec<String> =
            std::iter::once(&step.program).chain(&step.arguments).map(|word| quoted(word)).collect();
        format!("{}\n", words.join(" "))
    });
    std::iter::once(WATCH.to_owned()).chain(lines).collect()
}

/// A word that a shell takes as it is.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::worker::group::Group;

    fn sleeper() -> Group {
        let mut command = Command::new(SHELL);
        // A child of its own, as builds have them: only the group reaches it.
        command.arg("-c").arg("sleep 600 & echo up; wait").stdout(Stdio::piped());
        Group::start(command).unwrap()
    }

    fn touch(path: &std::path::Path) -> Step {
        Step { program: "touch".into(), arguments: vec![path.to_str().unwrap().to_owned()] }
    }

    #[tokio::test]
    async fn a_pulled_leash_kills_the_group_and_cleans_up() {
        let directory = tempfile::tempdir().unwrap();
        let cleaned = directory.path().join("it's clean");
        let mut group = sleeper();
        let mut leash = Leash::attach(&[touch(&cleaned)]).unwrap();
        leash.hold(group.number().unwrap()).await;
        let mut shell = leash.shell;
        // As the death of this program would.
        drop(shell.stdin.take());
        assert!(shell.wait().await.unwrap().success());
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(group.child.wait().await.unwrap().signal(), Some(libc::SIGKILL));
        assert!(cleaned.exists());
    }

    #[tokio::test]
    async fn who_says_goodbye_kills_nobody() {
        let directory = tempfile::tempdir().unwrap();
        let cleaned = directory.path().join("clean");
        let mut group = sleeper();
        let mut leash = Leash::attach(&[touch(&cleaned)]).unwrap();
        leash.hold(group.number().unwrap()).await;
        leash.let_go().await;
        assert_eq!(group.child.try_wait().unwrap(), None);
        assert!(!cleaned.exists());
    }
}
