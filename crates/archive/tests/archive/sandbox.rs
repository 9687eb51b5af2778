//! A directory to unpack in, with something beside it that must not change.

use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use baton_archive::{Contents, Error, Limits, Refusal, unpack};

/// What one path of a tree is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Node {
    Directory,
    File { content: Vec<u8>, is_executable: bool },
    Link(String),
}

impl Node {
    pub fn file(content: impl AsRef<[u8]>) -> Node {
        Node::File { content: content.as_ref().to_vec(), is_executable: false }
    }
}

/// A whole tree by relative path.
pub type Tree = BTreeMap<String, Node>;

pub fn tree<const N: usize>(nodes: [(&str, Node); N]) -> Tree {
    nodes.into_iter().map(|(path, node)| (path.to_owned(), node)).collect()
}

/// Reads a tree from disk.
pub fn read_tree(root: &Path) -> Tree {
    let mut tree = Tree::new();
    add(root, "", &mut tree);
    tree
}

fn add(directory: &Path, prefix: &str, tree: &mut Tree) {
    for child in fs::read_dir(directory).unwrap() {
        let child = child.unwrap();
        let path = format!("{prefix}{}", child.file_name().to_str().unwrap());
        let metadata = fs::symlink_metadata(child.path()).unwrap();
        let node = if metadata.is_dir() {
            add(&child.path(), &format!("{path}/"), tree);
            Node::Directory
        } else if metadata.is_symlink() {
            Node::Link(fs::read_link(child.path()).unwrap().to_str().unwrap().to_owned())
        } else {
            assert_eq!(metadata.permissions().mode() & 0o7000, 0, "{path}");
            let is_executable = metadata.permissions().mode() & 0o100 != 0;
            Node::File { content: fs::read(child.path()).unwrap(), is_executable }
        };
        tree.insert(path, node);
    }
}

/// Writes a tree to disk.
pub fn write_tree(root: &Path, tree: &Tree) {
    for (path, node) in tree {
        let path = root.join(path);
        match node {
            Node::Directory => fs::create_dir(&path).unwrap(),
            Node::Link(target) => std::os::unix::fs::symlink(target, &path).unwrap(),
            Node::File { content, is_executable } => {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, content).unwrap();
                let mode = if *is_executable { 0o700 } else { 0o640 };
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            }
        }
    }
}

pub struct Sandbox {
    place: tempfile::TempDir,
}

impl Sandbox {
    pub fn new() -> Sandbox {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("outside")).unwrap();
        fs::write(place.path().join("outside/canary"), "alive").unwrap();
        Sandbox { place }
    }

    pub fn target(&self) -> PathBuf {
        self.place.path().join("target")
    }

    /// Unpacks, and demands that nothing happened outside, and nothing at all after an error.
    pub fn unpack(&self, archive: &[u8], limits: &Limits) -> Result<Contents, Error> {
        let result = unpack(Cursor::new(archive), &self.target(), limits);
        let mut expected = tree([("outside", Node::Directory), ("outside/canary", Node::file("alive"))]);
        let mut found = read_tree(self.place.path());
        if result.is_ok() {
            expected.insert("target".into(), Node::Directory);
            found.retain(|path, _| !path.starts_with("target/"));
        }
        assert_eq!(found, expected, "something was left or written outside");
        if result.is_ok() {
            self.no_link_leads_out();
        }
        result
    }

    fn no_link_leads_out(&self) {
        let root = self.target().canonicalize().unwrap();
        for (path, node) in read_tree(&root) {
            if let (Node::Link(_), Ok(real)) = (node, root.join(&path).canonicalize()) {
                assert!(real.starts_with(&root), "{path} leads to {}", real.display());
            }
        }
    }
}

pub fn unpacked(archive: &[u8]) -> Tree {
    let sandbox = Sandbox::new();
    sandbox.unpack(archive, &Limits::default()).unwrap();
    read_tree(&sandbox.target())
}

pub fn refusal(archive: &[u8]) -> Refusal {
    match Sandbox::new().unpack(archive, &Limits::default()) {
        Err(Error::Refused { why, .. }) => why,
        other => panic!("{other:?}"),
    }
}

/// The message of the error that unpacking gives.
pub fn message(archive: &[u8], limits: &Limits) -> String {
    Sandbox::new().unpack(archive, limits).unwrap_err().to_string()
}
