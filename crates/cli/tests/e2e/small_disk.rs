//! A program with its files on a small file system of its own, which only it can see.

use std::io::Write;
use std::path::{Path, PathBuf};

use baton_testkit::Process;

/// Mounts a small file system where nobody else sees it, and starts a program. Without the right to mount, the kernel may still
/// give a user one in a namespace of their own.
const SCRIPT: &str = r#"mount -t tmpfs -o size="$1" tmpfs "$2" && shift 2 && exec "$@""#;

/// A disk of `size` at `directory`, for one program.
pub struct SmallDisk {
    directory: PathBuf,
    size: &'static str,
}

impl SmallDisk {
    pub fn at(directory: PathBuf, size: &'static str) -> SmallDisk {
        std::fs::create_dir_all(&directory).expect("our own directory");
        SmallDisk { directory, size }
    }

    /// Starts a program that has this disk.
    pub fn spawn<'a>(
        &'a self,
        program: &'a str,
        arguments: impl IntoIterator<Item = &'a str>,
        environment: Vec<(String, String)>,
    ) -> Process {
        let mut all = vec!["--mount"];
        if !is_root() {
            all.push("--map-root-user");
        }
        let directory = self.directory.to_str().expect("temporary paths are text");
        all.extend(["sh", "-c", SCRIPT, "sh", self.size, directory, program]);
        all.extend(arguments);
        Process::spawn("unshare", all, environment)
    }

    /// What the program sees on this disk, from outside.
    pub fn seen_by(&self, program: &Process) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", program.pid()));
        root.join(self.directory.strip_prefix("/").expect("temporary paths are absolute"))
    }
}

fn is_root() -> bool {
    let answer = std::process::Command::new("id").arg("-u").output().expect("id is everywhere");
    answer.stdout == b"0\n"
}

/// A file that takes all the room there is.
pub struct Ballast(PathBuf);

impl Ballast {
    pub fn fill(directory: &Path) -> Ballast {
        let path = directory.join("ballast");
        let mut file = std::fs::File::create(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let block = vec![0; 4_096];
        while file.write_all(&block).is_ok() {}
        Ballast(path)
    }

    pub fn remove(self) {
        std::fs::remove_file(self.0).expect("our own file");
    }
}
