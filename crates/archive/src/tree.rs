//! What an archive has named so far, and what may still be added.

use std::collections::HashMap;

use crate::error::{Error, Limit, Refusal};
use crate::limits::Limits;
use crate::name::shown;

/// What a path stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Node {
    Directory,
    File,
    Link,
}

/// The paths of an archive.
pub(crate) struct Tree {
    nodes: HashMap<String, Node>,
    /// From the lower-case form to the name as it is, where names that differ only in case are refused.
    lower_case: Option<HashMap<String, String>>,
    entries: u64,
    entries_max: u64,
    depth_max: usize,
}

impl Tree {
    pub(crate) fn new(limits: &Limits) -> Tree {
        Tree {
            nodes: HashMap::new(),
            lower_case: limits.refuse_case_duplicates.then(HashMap::new),
            entries: 0,
            entries_max: limits.entries_max,
            depth_max: limits.depth_max,
        }
    }

    /// Entries so far, with the directories that only paths name.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    pub(crate) fn get(&self, path: &str) -> Option<Node> {
        self.nodes.get(path).copied()
    }

    /// Adds one entry. Returns the directories that are new with it, outermost first: those above it that nobody named,
    /// and itself if it is one. A directory may be named again, as some programs do.
    pub(crate) fn add(&mut self, path: &str, node: Node) -> Result<Vec<String>, Error> {
        self.count()?;
        if path.is_empty() {
            return match node {
                Node::Directory => Ok(Vec::new()),
                Node::File | Node::Link => Err(Error::refused(b".", Refusal::EmptyName)),
            };
        }
        if path.split('/').count() > self.depth_max {
            let limit = Limit::Depth { name: shown(path.as_bytes()), depth_max: self.depth_max };
            return Err(Error::TooLarge(limit));
        }
        let mut made = self.add_parents(path)?;
        match (self.get(path), node) {
            (None, _) => {
                self.insert(path, node)?;
                if node == Node::Directory {
                    made.push(path.to_owned());
                }
            }
            (Some(Node::Directory), Node::Directory) => {}
            (Some(_), _) => return Err(Error::refused(path.as_bytes(), Refusal::Duplicate)),
        }
        Ok(made)
    }

    fn add_parents(&mut self, path: &str) -> Result<Vec<String>, Error> {
        let mut made = Vec::new();
        let Some((parent, _)) = path.rsplit_once('/') else {
            return Ok(made);
        };
        // The usual case is that the directory is known; then so are those above it.
        if self.get(parent) == Some(Node::Directory) {
            return Ok(made);
        }
        for (end, _) in path.match_indices('/') {
            let parent = &path[..end];
            match self.get(parent) {
                Some(Node::Directory) => {}
                Some(Node::File | Node::Link) => {
                    return Err(Error::refused(path.as_bytes(), Refusal::ParentNotADirectory));
                }
                None => {
                    self.count()?;
                    self.insert(parent, Node::Directory)?;
                    made.push(parent.to_owned());
                }
            }
        }
        Ok(made)
    }

    fn insert(&mut self, path: &str, node: Node) -> Result<(), Error> {
        if let Some(lower_case) = &mut self.lower_case
            && let Some(other) = lower_case.insert(path.to_lowercase(), path.to_owned())
        {
            let why = Refusal::DuplicateButForCase(shown(other.as_bytes()));
            return Err(Error::refused(path.as_bytes(), why));
        }
        self.nodes.insert(path.to_owned(), node);
        Ok(())
    }

    fn count(&mut self) -> Result<(), Error> {
        self.entries += 1;
        if self.entries > self.entries_max {
            return Err(Error::TooLarge(Limit::Entries { entries_max: self.entries_max }));
        }
        Ok(())
    }
}
