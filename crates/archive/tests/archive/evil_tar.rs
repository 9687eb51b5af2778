//! Every trick we know of, in a tar.

use std::io::Cursor;

use baton_archive::{Error, Format, Limits, Refusal, check};
use tar::EntryType;

use crate::raw_tar::{entry, file, gzip, long_name, pax, tar, with_header};
use crate::sandbox::{Node, Sandbox, message, refusal, tree, unpacked};

#[test]
fn an_honest_tar_is_unpacked_plain_and_compressed() {
    let archive = tar(&[
        entry(
            EntryType::XGlobalHeader,
            "pax_global_header",
            "",
            b"52 comment=0123456789012345678901234567890123456789\n",
        ),
        entry(EntryType::Directory, "./", "", b""),
        entry(EntryType::Directory, "./empty/", "", b""),
        file("old style directory/", b""),
        file("./src/main.rs", b"fn main() {}"),
        with_header(EntryType::Regular, "run", "", b"#!/bin/sh", |header| header.set_mode(0o755)),
        entry(EntryType::Link, "again", "./run", b""),
        entry(EntryType::Symlink, "src/latest", "../run", b""),
        long_name(&["deep"; 40].join("/")),
        file("cut", b"long"),
        pax("path", "für"),
        file("cut", b"pax"),
    ]);
    let script = Node::File { content: b"#!/bin/sh".to_vec(), is_executable: true };
    let mut expected = tree([
        ("empty", Node::Directory),
        ("old style directory", Node::Directory),
        ("src", Node::Directory),
        ("src/main.rs", Node::file("fn main() {}")),
        ("run", script.clone()),
        ("again", script),
        ("src/latest", Node::Link("../run".into())),
        ("für", Node::file("pax")),
    ]);
    expected.extend((1..40).map(|depth| (vec!["deep"; depth].join("/"), Node::Directory)));
    expected.insert(["deep"; 40].join("/"), Node::file("long"));
    assert_eq!(unpacked(&archive), expected);
    assert_eq!(unpacked(&gzip(&archive)), expected);
    assert_eq!(check(Cursor::new(&archive), &Limits::default()).unwrap().format, Format::Tar);
    assert_eq!(check(Cursor::new(gzip(&archive)), &Limits::default()).unwrap().format, Format::TarGz);
}

#[test]
fn one_bad_entry_and_nothing_is_left() {
    let outside = |target: &str| Refusal::LinkOutside(target.into());
    let hard = |target: &str| Refusal::HardLinkTarget(target.into());
    for (what, entries, expected) in [
        ("absolute", vec![file("/tmp/evil", b"x")], Refusal::AbsolutePath),
        ("parent", vec![file("../outside/canary", b"dead")], Refusal::ParentPath),
        ("parent below", vec![file("a/../../outside/canary", b"dead")], Refusal::ParentPath),
        ("parent in a pax header", vec![pax("path", "../outside/canary"), file("ok", b"dead")], Refusal::ParentPath),
        ("parent in a long name", vec![long_name("../outside/canary"), file("ok", b"dead")], Refusal::ParentPath),
        ("backslash", vec![file("..\\evil", b"x")], Refusal::Backslash),
        ("drive", vec![file("c:evil", b"x")], Refusal::DriveLetter),
        ("nul", vec![pax("path", "a\0b"), file("ok", b"x")], Refusal::NulByte),
        ("no name", vec![file("", b"x")], Refusal::EmptyName),
        ("twice", vec![file("good", b"y")], Refusal::Duplicate),
        ("link out", vec![entry(EntryType::Symlink, "l", "../outside", b"")], outside("../outside")),
        ("link to root", vec![entry(EntryType::Symlink, "l", "/", b"")], outside("/")),
        (
            "link out in a pax header",
            vec![pax("linkpath", "../outside"), entry(EntryType::Symlink, "l", "ok", b"")],
            outside("../outside"),
        ),
        (
            "through a link",
            vec![entry(EntryType::Symlink, "l", "d", b""), file("l/file", b"x")],
            Refusal::ParentNotADirectory,
        ),
        ("over a link", vec![entry(EntryType::Symlink, "l", "good", b""), file("l", b"x")], Refusal::Duplicate),
        ("hard link out", vec![entry(EntryType::Link, "l", "../outside/canary", b"")], Refusal::ParentPath),
        ("hard link to root", vec![entry(EntryType::Link, "l", "/etc/passwd", b"")], Refusal::AbsolutePath),
        ("hard link to nothing", vec![entry(EntryType::Link, "l", "later", b""), file("later", b"x")], hard("later")),
        (
            "hard link to a link",
            vec![entry(EntryType::Symlink, "s", "good", b""), entry(EntryType::Link, "l", "s", b"")],
            hard("s"),
        ),
        (
            "hard link to a directory",
            vec![entry(EntryType::Directory, "d/", "", b""), entry(EntryType::Link, "l", "d", b"")],
            hard("d"),
        ),
        ("character device", vec![entry(EntryType::Char, "null", "", b"")], Refusal::SpecialFile),
        ("block device", vec![entry(EntryType::Block, "disk", "", b"")], Refusal::SpecialFile),
        ("pipe", vec![entry(EntryType::Fifo, "pipe", "", b"")], Refusal::SpecialFile),
        ("unknown", vec![entry(EntryType::new(b'Z'), "z", "", b"")], Refusal::SpecialFile),
        ("new sparse", vec![pax("GNU.sparse.major", "1"), file("sparse", b"map")], Refusal::Sparse),
        (
            "set-uid",
            vec![with_header(EntryType::Regular, "su", "", b"x", |header| header.set_mode(0o4755))],
            Refusal::SetUid,
        ),
    ] {
        let archive = tar(&[vec![file("good", b"x")], entries].concat());
        assert_eq!(refusal(&archive), expected, "{what}");
        assert_eq!(refusal(&gzip(&archive)), expected, "{what}");
        assert!(check(Cursor::new(&archive), &Limits::default()).is_err(), "{what}");
    }
}

#[test]
fn what_is_cut_off_or_altered_is_damaged() {
    let archive = tar(&[file("a", b"content"), file("b", &[7; 3_000])]);
    let is_damaged = |bytes: &[u8]| message(bytes, &Limits::default()).starts_with("the archive is damaged");
    // Also where it is cut exactly between two entries, or before the mark of its end.
    for length in (512..=archive.len() - 1_024).step_by(256) {
        assert!(is_damaged(&archive[..length]), "{length}");
    }
    let compressed = gzip(&archive);
    for length in 20..compressed.len() {
        let result = Sandbox::new().unpack(&compressed[..length], &Limits::default());
        assert!(matches!(result, Err(Error::Damaged(_) | Error::NotAnArchive)), "{length}: {result:?}");
    }
    let mut wrong_checksum = compressed.clone();
    let place = compressed.len() - 8;
    wrong_checksum[place] ^= 1;
    assert!(is_damaged(&wrong_checksum));
    let mut wrong_header = archive.clone();
    wrong_header[1_024] ^= 1;
    assert!(is_damaged(&wrong_header));
    assert!(is_damaged(&[compressed, b"and something else".to_vec()].concat()));
}

#[test]
fn a_gzip_of_something_else_is_no_archive() {
    for bytes in [gzip(b""), gzip(b"just text"), gzip(&[b'x'; 5_000]), gzip(&gzip(b"twice"))] {
        assert_eq!(message(&bytes, &Limits::default()), Error::NotAnArchive.to_string());
    }
}

#[test]
fn headers_have_a_limit_of_their_own() {
    // A name of 20 MB is 20 kB of gzip, and the library would hold it in memory.
    let name = "x".repeat(20 << 20);
    let archive = gzip(&tar(&[file("good", b"x"), long_name(&name), file("cut", b"x")]));
    assert!(message(&archive, &Limits::default()).contains("a header, or what follows the last file, has more than"));
    let archive = gzip(&[tar(&[file("good", b"x")]), vec![0; 20 << 20]].concat());
    assert!(message(&archive, &Limits::default()).contains("a header, or what follows the last file, has more than"));
}

#[test]
fn limits_are_kept() {
    let limits =
        Limits { total_bytes_max: 10_000, file_bytes_max: 6_000, entries_max: 3, depth_max: 2, ..Limits::default() };
    for (entries, expected) in [
        (vec![file("a", &[1; 6_001])], "a has more than 6000 bytes"),
        (vec![file("a", &[1; 6_000]), file("b", &[1; 6_000])], "more than 10000 bytes in all"),
        (vec![file("a/b/c", b"")], "a/b/c is more than 2 directories deep"),
        (vec![file("a/b", b""), file("c/d", b"")], "more than 3 entries"),
        // A claim is enough, before anything of it is read.
        (
            vec![with_header(EntryType::Regular, "a", "", b"", |header| header.set_size(1 << 40))],
            "a has more than 6000 bytes",
        ),
        (vec![pax("size", "99999999999"), file("a", b"x")], "a has more than 6000 bytes"),
    ] {
        assert_eq!(message(&tar(&entries), &limits), format!("the archive is too large: {expected}"));
    }
}
