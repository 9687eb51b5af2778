//! Any tree comes back as it was, and always as the same bytes.

use std::collections::BTreeSet;

use baton_archive::{Limits, PackOptions, check, pack};
use proptest::collection::{btree_map, vec};
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};
use std::io::Cursor;

use crate::sandbox::{Node, Sandbox, Tree, read_tree, write_tree};

fn name() -> impl Strategy<Value = String> {
    // Few letters, so that names meet; and some that have a meaning elsewhere. No capitals, for the sake of Macs.
    prop_oneof![
        4 => "[ab]{1,2}",
        1 => "[ -.0-9;-@\\[\\]-~äßé日😀]{1,12}".prop_filter("has a meaning", |name| !matches!(&**name, "." | ".." | ".git")),
        1 => Just("-rf *".to_owned()),
        1 => Just("...".to_owned()),
    ]
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(any::<u8>(), 0..200), (any::<u8>(), 0..100_000_usize).prop_map(|(byte, count)| vec![byte; count]),]
}

fn node() -> impl Strategy<Value = Node> {
    prop_oneof![
        2 => Just(Node::Directory),
        6 => (content(), any::<bool>()).prop_map(|(content, is_executable)| Node::File { content, is_executable }),
        1 => vec(name(), 1..3).prop_map(|names| Node::Link(names.join("/"))),
    ]
}

/// Trees in which every path has its directories, and nothing lies under a file or a link.
fn any_tree() -> impl Strategy<Value = Tree> {
    btree_map(vec(name(), 1..5).prop_map(|names| names.join("/")), node(), 0..20).prop_map(|paths| {
        let mut tree = Tree::new();
        let mut closed = BTreeSet::new();
        for (path, node) in paths {
            let parents: Vec<_> = path.match_indices('/').map(|(end, _)| path[..end].to_owned()).collect();
            if tree.contains_key(&path) || parents.iter().any(|parent| closed.contains(parent)) {
                continue;
            }
            tree.extend(parents.into_iter().map(|parent| (parent, Node::Directory)));
            if node != Node::Directory {
                closed.insert(path.clone());
            }
            tree.insert(path, node);
        }
        tree
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_tree_comes_back_as_it_was(tree in any_tree()) {
        // The names are random: none of them may be taken for rules.
        let place = tempfile::tempdir().unwrap();
        write_tree(place.path(), &tree);
        let mut archive = Vec::new();
        let manifest = pack(place.path(), &mut archive, &PackOptions::default(), |_| {}).unwrap();
        assert_eq!(manifest.entries, tree.len() as u64);

        let sandbox = Sandbox::new();
        let contents = sandbox.unpack(&archive, &Limits::default()).unwrap();
        assert_eq!(read_tree(&sandbox.target()), tree);
        assert_eq!((contents.entries, contents.bytes), (manifest.entries, manifest.bytes));
        assert_eq!(check(Cursor::new(&archive), &Limits::default()).unwrap(), contents);

        let mut again = Vec::new();
        assert_eq!(pack(&sandbox.target(), &mut again, &PackOptions::default(), |_| {}).unwrap(), manifest);
        assert!(again == archive, "the same tree gave other bytes");
    }
}
