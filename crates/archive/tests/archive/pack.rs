//! What goes into an archive, and what does not.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Cursor, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, SystemTime};

use baton_archive::{Error, Limits, LinksOutside, Manifest, PackOptions, Refusal, check, pack};

use crate::sandbox::{Node, Tree, read_tree, tree, unpacked, write_tree};

fn packed(directory: &Path) -> Vec<u8> {
    packed_with(directory, &PackOptions::default()).unwrap().1
}

fn packed_with(directory: &Path, options: &PackOptions) -> Result<(Manifest, Vec<u8>), Error> {
    let mut bytes = Vec::new();
    let manifest = pack(directory, &mut bytes, options, |_| {})?;
    Ok((manifest, bytes))
}

/// The paths that are left after a tree was packed and unpacked.
fn kept(directory: &Path) -> Vec<String> {
    unpacked(&packed(directory)).into_keys().collect()
}

fn directory_of<const N: usize>(nodes: [(&str, Node); N]) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    write_tree(place.path(), &tree(nodes));
    place
}

#[test]
fn ignored_files_are_left_out() {
    let place = directory_of([
        (".gitignore", Node::file("*.log\nbuild/\n/only-here\n!keep.log\n")),
        (".hidden", Node::file("")),
        ("a.log", Node::file("")),
        ("build/out", Node::file("")),
        ("keep.log", Node::file("")),
        ("only-here", Node::file("")),
        ("sub/.gitignore", Node::file("*.tmp\n!a.log\n")),
        ("sub/a.log", Node::file("")),
        ("sub/b.log", Node::file("")),
        ("sub/build/out", Node::file("")),
        ("sub/only-here", Node::file("")),
        ("sub/x.tmp", Node::file("")),
        ("x.tmp", Node::file("")),
    ]);
    let expected =
        [".gitignore", ".hidden", "keep.log", "sub", "sub/.gitignore", "sub/a.log", "sub/only-here", "x.tmp"];
    assert_eq!(kept(place.path()), expected);
}

#[test]
fn our_own_ignore_file_wins() {
    let place = directory_of([
        (".batonignore", Node::file("docs/\n!needed.log\n")),
        (".gitignore", Node::file("*.log\n")),
        ("docs/page", Node::file("")),
        ("needed.log", Node::file("")),
        ("other.log", Node::file("")),
        ("sub/.batonignore", Node::file("secret\n")),
        ("sub/secret", Node::file("")),
    ]);
    assert_eq!(kept(place.path()), [".batonignore", ".gitignore", "needed.log", "sub", "sub/.batonignore"]);
}

#[test]
fn a_part_of_a_repository_obeys_the_rules_above_it_but_not_those_beyond() {
    let place = directory_of([
        (".gitignore", Node::file("*.beyond\n")),
        ("repository/.git/HEAD", Node::file("ref: refs/heads/main")),
        ("repository/.gitignore", Node::file("node_modules/\n")),
        ("repository/app/a.beyond", Node::file("")),
        ("repository/app/index.js", Node::file("")),
        ("repository/app/node_modules/x", Node::file("")),
    ]);
    assert_eq!(kept(&place.path().join("repository/app")), ["a.beyond", "index.js"]);
    // Outside of a repository, nothing above counts.
    fs::remove_dir_all(place.path().join("repository/.git")).unwrap();
    let without = kept(&place.path().join("repository/app"));
    assert_eq!(without, ["a.beyond", "index.js", "node_modules", "node_modules/x"]);
}

#[test]
fn a_rule_nobody_understands_is_an_error() {
    let place = directory_of([(".batonignore", Node::file("a{b\n"))]);
    let error = packed_with(place.path(), &PackOptions::default()).unwrap_err();
    assert!(matches!(error, Error::IgnoreFile(_)), "{error}");
    assert!(error.to_string().contains(".batonignore"), "{error}");
}

#[test]
fn the_repository_itself_and_the_output_are_left_out() {
    let place = directory_of([
        (".git/config", Node::file("[remote]")),
        ("module/.git", Node::file("gitdir: ../.git/modules/module")),
        ("module/code", Node::file("x")),
    ]);
    let output = place.path().join("module/source.zip");
    let file = File::create(&output).unwrap();
    let options = PackOptions { leave_out: vec![output.clone()], ..PackOptions::default() };
    let manifest = pack(place.path(), file, &options, |_| {}).unwrap();
    let archive = fs::read(&output).unwrap();
    assert_eq!(unpacked(&archive).into_keys().collect::<Vec<_>>(), ["module", "module/code"]);
    assert_eq!((manifest.entries, manifest.files, manifest.bytes), (2, 1, 1));
    assert_eq!(manifest.archive_bytes, archive.len() as u64);
    assert_eq!(manifest.sha256, sha256(&archive));
}

/// Named by another path, behind a link, or as a directory: a secret stays out.
#[test]
fn what_is_to_be_left_out_is_so_however_it_is_named() {
    let place = directory_of([
        ("certs.zip", Node::file("secret")),
        ("real/keys.zip", Node::file("secret")),
        ("real/code", Node::file("x")),
        ("keys.zip", Node::Link("real/keys.zip".into())),
        ("dist/old/app", Node::file("old")),
    ]);
    let roundabout = place.path().join("real/../certs.zip");
    let leave_out = vec![roundabout, place.path().join("keys.zip"), place.path().join("dist"), "/no/such/file".into()];
    for everything in [false, true] {
        let options = PackOptions { leave_out: leave_out.clone(), everything, ..PackOptions::default() };
        let (manifest, archive) = packed_with(place.path(), &options).unwrap();
        assert_eq!(unpacked(&archive).into_keys().collect::<Vec<_>>(), ["real", "real/code"]);
        assert_eq!(manifest.left_out, ["certs.zip", "dist", "keys.zip", "real/keys.zip"]);
    }
    // The tree itself is what is wanted.
    let options = PackOptions { leave_out: vec![place.path().to_owned()], ..PackOptions::default() };
    assert_eq!(packed_with(place.path(), &options).unwrap().0.files, 4);
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).into()
}

#[test]
fn neither_times_nor_modes_nor_the_place_change_the_bytes() {
    let nodes = [
        ("a/b", Node::file("content")),
        ("a-b", Node::file("x".repeat(200_000))),
        ("run", Node::File { content: b"#!".to_vec(), is_executable: true }),
        ("z", Node::Link("a/b".into())),
    ];
    let first = directory_of(nodes.clone());
    let second = tempfile::tempdir().unwrap();
    // In another order, at another time, with other modes.
    for (path, node) in nodes.into_iter().rev() {
        write_tree(second.path(), &tree([(path, node)]));
    }
    let file = File::open(second.path().join("a/b")).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)).unwrap();
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(second.path().join("a-b"), fs::Permissions::from_mode(0o664)).unwrap();
    fs::set_permissions(second.path().join("a"), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(packed(first.path()), packed(second.path()));
}

#[test]
fn links_inside_stay_links_and_lead_to_the_same() {
    let place = directory_of([("d/e/file", Node::file("x"))]);
    let root = place.path().canonicalize().unwrap();
    symlink("e/file", root.join("d/plain")).unwrap();
    symlink("../d", root.join("d/up")).unwrap();
    symlink("nothing", root.join("dangling")).unwrap();
    // These would not be taken as they are.
    symlink(root.join("d/e/file"), root.join("d/absolute")).unwrap();
    symlink("e/../e/file", root.join("d/roundabout")).unwrap();
    symlink(&root, root.join("root")).unwrap();
    let links: Tree = unpacked(&packed(&root)).into_iter().filter(|(_, node)| matches!(node, Node::Link(_))).collect();
    let expected = [
        ("d/absolute", "../d/e/file"),
        ("d/plain", "e/file"),
        ("d/roundabout", "../d/e/file"),
        ("d/up", "../d"),
        ("dangling", "nothing"),
        ("root", "."),
    ];
    assert_eq!(links, tree(expected.map(|(path, target)| (path, Node::Link(target.into())))));
}

#[test]
fn links_outside_are_refused_by_name_or_left_out() {
    for target in ["/etc/passwd", "../beside", "d/../../beside", "/nowhere"] {
        let place = directory_of([("d/file", Node::file("x"))]);
        symlink(target, place.path().join("d-link")).unwrap();
        match packed_with(place.path(), &PackOptions::default()) {
            Err(Error::Refused { name, why: Refusal::LinkOutside(to) }) => {
                assert_eq!((&*name, &*to), ("d-link", target));
            }
            other => panic!("{target}: {other:?}"),
        }
        let options = PackOptions { links_outside: LinksOutside::Skip, ..PackOptions::default() };
        let (manifest, archive) = packed_with(place.path(), &options).unwrap();
        assert_eq!(manifest.skipped_links, ["d-link"]);
        assert_eq!(unpacked(&archive).into_keys().collect::<Vec<_>>(), ["d", "d/file"]);
    }
}

#[test]
fn what_cannot_be_packed_is_named() {
    let refused = |place: &Path| match packed_with(place, &PackOptions::default()) {
        Err(Error::Refused { name, why }) => (name, why),
        other => panic!("{other:?}"),
    };
    let place = directory_of([]);
    let _socket = UnixListener::bind(place.path().join("socket")).unwrap();
    assert_eq!(refused(place.path()), ("socket".into(), Refusal::SpecialFile));
    let place = directory_of([("back\\slash", Node::file(""))]);
    assert_eq!(refused(place.path()), ("back\\slash".into(), Refusal::Backslash));
    // Other systems do not even let such a name come up.
    if cfg!(target_os = "linux") {
        let place = directory_of([]);
        fs::write(place.path().join(OsStr::from_bytes(b"caf\xe9")), "").unwrap();
        assert_eq!(refused(place.path()), ("caf\\xe9".into(), Refusal::NotUtf8));
    }
    let missing = packed_with(Path::new("/no/such/directory"), &PackOptions::default());
    assert!(matches!(missing, Err(Error::File { .. })), "{missing:?}");
    let place = directory_of([("file", Node::file(""))]);
    let no_directory = packed_with(&place.path().join("file"), &PackOptions::default());
    assert!(matches!(no_directory, Err(Error::File { .. })), "{no_directory:?}");
}

#[test]
fn progress_ends_at_the_whole() {
    let place = directory_of([("a", Node::file(vec![1; 200_000])), ("b", Node::file("x")), ("c", Node::file(""))]);
    let mut seen = Vec::new();
    pack(place.path(), io::sink(), &PackOptions::default(), |progress| seen.push(progress)).unwrap();
    assert!(seen.is_sorted_by_key(|progress| (progress.bytes, progress.files)));
    assert!(seen.iter().all(|progress| (progress.files_total, progress.bytes_total) == (3, 200_001)));
    let last = seen.last().unwrap();
    assert_eq!((last.files, last.bytes), (3, 200_001));
    assert!(seen.len() > 5, "a large file reports on the way");
}

/// A writer to a disk that fills up.
struct Full<'a> {
    bytes: &'a mut Vec<u8>,
    room: usize,
}

impl Write for Full<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + buffer.len() > self.room {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes.extend_from_slice(buffer);
        Ok(buffer.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn half_an_archive_does_not_look_like_a_whole_one() {
    let noise = |seed: u32| -> Vec<u8> {
        (0..200_000_u32).map(|number| ((number ^ seed).wrapping_mul(2_654_435_761) >> 13) as u8).collect()
    };
    let place = directory_of([("a", Node::file(noise(1))), ("b", Node::file(noise(2)))]);
    let (_, whole) = packed_with(place.path(), &PackOptions::default()).unwrap();
    // Too little room for the contents, and too little room for the directory.
    for room in [whole.len() / 4, whole.len() - 20] {
        let mut bytes = Vec::new();
        let full = Full { bytes: &mut bytes, room };
        let result = pack(place.path(), full, &PackOptions::default(), |_| {});
        assert!(
            matches!(&result, Err(Error::Write(error)) if error.kind() == io::ErrorKind::StorageFull),
            "{result:?}"
        );
        assert!(check(Cursor::new(&bytes), &Limits::default()).is_err(), "{room}");
    }
    // A file that goes away while the one before it is packed.
    let mut bytes = Vec::new();
    let vanishing = place.path().join("b");
    let result = pack(place.path(), &mut bytes, &PackOptions::default(), |_| {
        let _ = fs::remove_file(&vanishing);
    });
    assert!(matches!(&result, Err(Error::File { path, .. }) if path.ends_with("b")), "{result:?}");
    assert!(check(Cursor::new(&bytes), &Limits::default()).is_err());
}

#[test]
fn an_empty_directory_is_an_empty_archive() {
    let place = directory_of([]);
    assert_eq!(unpacked(&packed(place.path())), tree([]));
    assert_eq!(read_tree(place.path()), tree([]));
}
