//! Every trick we know of, in a zip.

use baton_archive::{Error, Limits, Refusal, check};

use crate::raw_zip::{
    central_header, deflated, directory, link, local_header, quoted_overlap, stored, with_directory, zip,
};
use crate::sandbox::{Node, Sandbox, message, read_tree, refusal, tree, unpacked};
use std::io::Cursor;

#[test]
fn an_honest_zip_is_unpacked() {
    let archive = zip(&[
        directory("empty/"),
        deflated("src/main.rs", b"fn main() {}"),
        stored("run", "#!/bin/sh").with(|entry| entry.mode = 0o100_755),
        link("src/latest", "../run"),
        // Windows leaves the mode at zero.
        stored("from windows", "x").with(|entry| entry.mode = 0),
        stored("no mode/", "").with(|entry| entry.mode = 0),
        // A Mac writes UTF-8 and forgets the mark.
        stored("für", "x"),
    ]);
    let expected = tree([
        ("empty", Node::Directory),
        ("from windows", Node::file("x")),
        ("für", Node::file("x")),
        ("no mode", Node::Directory),
        ("run", Node::File { content: b"#!/bin/sh".to_vec(), is_executable: true }),
        ("src", Node::Directory),
        ("src/latest", Node::Link("../run".into())),
        ("src/main.rs", Node::file("fn main() {}")),
    ]);
    assert_eq!(unpacked(&archive), expected);
    let contents = check(Cursor::new(&archive), &Limits::default()).unwrap();
    assert_eq!((contents.entries, contents.bytes), (8, 23));
    assert_eq!(Sandbox::new().unpack(&archive, &Limits::default()).unwrap(), contents);
}

#[test]
fn one_bad_entry_and_nothing_is_left() {
    let good = || stored("good", "x");
    for (entry, expected) in [
        (stored("/etc/cron.d/evil", "x"), Refusal::AbsolutePath),
        (stored("../outside/canary", "dead"), Refusal::ParentPath),
        (stored("a/../../outside/canary", "dead"), Refusal::ParentPath),
        (directory("../made/"), Refusal::ParentPath),
        (stored("C:/evil", "x"), Refusal::DriveLetter),
        (stored("..\\outside\\canary", "dead"), Refusal::Backslash),
        (stored("a\0b", "x"), Refusal::NulByte),
        (stored(b"a\xff", "x"), Refusal::NotUtf8),
        (stored("", "x"), Refusal::EmptyName),
        (stored("a//b", "x"), Refusal::EmptyName),
        (stored(".", "x"), Refusal::EmptyName),
        (stored("x".repeat(256), "x"), Refusal::NameTooLong),
        (stored(vec!["y".repeat(200); 6].join("/"), "x"), Refusal::NameTooLong),
        (stored("good", "y"), Refusal::Duplicate),
        (stored("./good", "y"), Refusal::Duplicate),
        (directory("good/"), Refusal::Duplicate),
        (stored("good/below", "y"), Refusal::ParentNotADirectory),
        (link("l", "/etc/passwd"), Refusal::LinkOutside("/etc/passwd".into())),
        (link("l", "../outside"), Refusal::LinkOutside("../outside".into())),
        (link("d/l", "../../outside"), Refusal::LinkOutside("../../outside".into())),
        (link("l", "good/../../outside"), Refusal::LinkOutside("good/../../outside".into())),
        (link("l", ""), Refusal::LinkOutside(String::new())),
        (stored("dev", "").with(|entry| entry.mode = 0o020_666), Refusal::SpecialFile),
        (stored("disk", "").with(|entry| entry.mode = 0o060_666), Refusal::SpecialFile),
        (stored("pipe", "").with(|entry| entry.mode = 0o010_666), Refusal::SpecialFile),
        (stored("socket", "").with(|entry| entry.mode = 0o140_666), Refusal::SpecialFile),
        (stored("su", "x").with(|entry| entry.mode = 0o104_755), Refusal::SetUid),
        (stored("sg", "x").with(|entry| entry.mode = 0o102_755), Refusal::SetUid),
        (stored("secret", "x").with(|entry| entry.flags = 1), Refusal::Encrypted),
        (stored("bzip2", "x").with(|entry| entry.method = 12), Refusal::Method),
        (stored("aes", "x").with(|entry| entry.method = 99), Refusal::Method),
    ] {
        let archive = zip(&[good(), entry.clone()]);
        assert_eq!(refusal(&archive), expected, "{}", entry.name.escape_ascii());
        // The directory alone tells, so the server refuses the upload.
        assert!(check(Cursor::new(&archive), &Limits::default()).is_err(), "{}", entry.name.escape_ascii());
    }
}

#[test]
fn nothing_is_written_through_a_link() {
    // A link into the tree that a later entry tries to use as a directory, in both orders.
    let through = [link("l", "d"), directory("d/"), stored("l/file", "x")];
    assert_eq!(refusal(&zip(&through)), Refusal::ParentNotADirectory);
    let replaced = [stored("d/file", "x"), link("d", "elsewhere")];
    assert_eq!(refusal(&zip(&replaced)), Refusal::Duplicate);
    let twice = [link("l", "a"), stored("l", "x")];
    assert_eq!(refusal(&zip(&twice)), Refusal::Duplicate);
    let under_itself = [link("l", "l"), stored("l/l/l", "x")];
    assert_eq!(refusal(&zip(&under_itself)), Refusal::ParentNotADirectory);
}

#[test]
fn chains_of_links_stay_inside() {
    // Neither climbs higher than it lies deep, and yet the second would lead out: `a` is the root already.
    let climb = [link("d/a", ".."), link("d/b", "a/..")];
    assert_eq!(refusal(&zip(&climb)), Refusal::LinkOutside("a/..".into()));
    // The same on a file system that takes `d/A` for `d/a`, where the names of the archive do not show it.
    let by_case = [link("d/A", ".."), link("d/b", "a/..")];
    assert_eq!(refusal(&zip(&by_case)), Refusal::LinkOutside("a/..".into()));
    // What is really inside is kept, however long the way.
    let inside = [link("d/up", ".."), link("d/l", "up/up/d/up/file"), directory("up/"), stored("file", "x")];
    let sandbox = Sandbox::new();
    sandbox.unpack(&zip(&inside), &Limits::default()).unwrap();
    assert_eq!(read_tree(&sandbox.target())["d/l"], Node::Link("up/up/d/up/file".into()));
    // Loops do no harm.
    let looped = [link("a", "b"), link("b", "a"), link("c", "c")];
    Sandbox::new().unpack(&zip(&looped), &Limits::default()).unwrap();
}

#[test]
fn a_second_name_in_an_extra_field_is_checked_as_well() {
    // The Unicode path field: version, checksum of the plain name, and the name to use instead of it.
    let field = |name: &str, instead: &str| {
        let content = [&[1][..], &crc32fast::hash(name.as_bytes()).to_le_bytes(), instead.as_bytes()].concat();
        [&0x7075_u16.to_le_bytes()[..], &(content.len() as u16).to_le_bytes(), &content].concat()
    };
    let entry = stored("good", "x").with(|entry| entry.extra = field("good", "../outside/canary"));
    assert_eq!(refusal(&zip(&[entry])), Refusal::ParentPath);
}

#[test]
fn headers_that_lie_are_found_out() {
    let zeros = vec![0; 100_000];
    for (what, entry) in [
        ("smaller than it is", deflated("a", &zeros).with(|entry| entry.size = 10)),
        ("larger than it is", deflated("a", &zeros).with(|entry| entry.size = 200_000)),
        ("stored, smaller", stored("a", "content").with(|entry| entry.size = 3)),
        ("stored, larger", stored("a", "content").with(|entry| entry.size = 30)),
        ("another checksum", stored("a", "content").with(|entry| entry.crc ^= 1)),
        ("no deflate", stored("a", "content").with(|entry| entry.method = 8)),
        ("another local name", stored("a", "content").with(|entry| entry.local_name = Some(b"b".to_vec()))),
        ("data after the end", stored("a", "content").with(|entry| entry.compressed_size = 1 << 30)),
        ("header after the end", stored("a", "content").with(|entry| entry.offset = Some(1 << 30))),
        ("header nowhere", stored("a", "content").with(|entry| entry.offset = Some(1))),
        ("a directory with content", stored("a/", "content")),
    ] {
        let result = Sandbox::new().unpack(&zip(&[entry, stored("z", "x")]), &Limits::default());
        let is_right = matches!(result, Err(Error::Damaged(_) | Error::Refused { why: Refusal::Overlap, .. }));
        assert!(is_right, "{what}: {result:?}");
    }
}

#[test]
fn entries_do_not_share_bytes() {
    // Two names for one place.
    let twin = stored("b", "content").with(|entry| entry.offset = Some(0));
    assert_eq!(refusal(&zip(&[stored("a", "content"), twin])), Refusal::Overlap);
    // One entry inside of another.
    let inner = stored("inner", "x");
    let outer_start = local_header(&stored("outer", "")).len() as u32;
    let outer = stored("outer", [local_header(&inner), b"x".to_vec()].concat());
    let inner = inner.with(|entry| entry.offset = Some(outer_start));
    assert_eq!(refusal(&zip(&[outer, inner])), Refusal::Overlap);
    // The header of the second lies in an extra field of the first, and both have the same byte as content. Only the
    // local header of the first shows it.
    let second = stored("b", "x");
    let quoted = local_header(&second);
    let field = [&[0xfe, 0xca][..], &(quoted.len() as u16).to_le_bytes(), &quoted].concat();
    let first = stored("a", "x").with(|entry| entry.extra = field);
    let second_start = (local_header(&first).len() - quoted.len()) as u32;
    let bytes = [local_header(&first), b"x".to_vec()].concat();
    let central = [central_header(&stored("a", "x"), 0), central_header(&second, second_start)].concat();
    assert_eq!(refusal(&with_directory(bytes, &central, 2)), Refusal::Overlap);
}

#[test]
fn a_quoted_overlap_is_refused_by_its_directory() {
    let archive = quoted_overlap(1_000, &vec![0; 1 << 20]);
    assert!(archive.len() < 200_000, "a gigabyte in {} bytes", archive.len());
    let unlimited = Limits { ratio_max: u64::MAX, ..Limits::default() };
    match check(Cursor::new(&archive), &unlimited) {
        Err(Error::Refused { why: Refusal::Overlap, .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(message(&archive, &unlimited), "00999: it overlaps with another entry");
}

#[test]
fn limits_are_kept() {
    let limits = Limits {
        total_bytes_max: 1_000,
        file_bytes_max: 600,
        entries_max: 5,
        ratio_max: 2,
        ratio_floor_bytes: 500,
        depth_max: 3,
        refuse_case_duplicates: true,
    };
    let letters: Vec<u8> = (0..600_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for (entries, expected) in [
        (vec![stored("a", &letters)], None),
        (vec![stored("a", vec![1; 601])], Some("the archive is too large: a has more than 600 bytes")),
        (
            vec![stored("a", &letters), stored("b", &letters)],
            Some("the archive is too large: more than 1000 bytes in all"),
        ),
        (vec![deflated("a", &[0; 500])], None),
        (vec![deflated("a", &[0; 501])], Some("the archive is too large: it unpacks to more than 2 times its size")),
        (vec![stored("a/b/c", "x")], None),
        (vec![stored("a/b/c/d", "x")], Some("the archive is too large: a/b/c/d is more than 3 directories deep")),
        // Five entries, though the archive names only three.
        (vec![stored("a/b/c", ""), stored("a/b/d", ""), stored("e", "")], None),
        (
            vec![stored("a/b/c", ""), stored("a/d/e", ""), stored("f", "")],
            Some("the archive is too large: more than 5 entries"),
        ),
        (vec![stored("x", ""); 6], Some("the archive is too large: more than 5 entries")),
        (vec![stored("Read", ""), stored("read", "")], Some("read: the name differs only in case from Read")),
        (vec![stored("D/a", ""), stored("d/b", "")], Some("d: the name differs only in case from D")),
    ] {
        let names: Vec<_> = entries.iter().map(|entry| entry.name.escape_ascii().to_string()).collect();
        let archive = zip(&entries);
        let result = Sandbox::new().unpack(&archive, &limits).map_err(|error| error.to_string());
        let checked = check(Cursor::new(&archive), &limits).map_err(|error| error.to_string());
        assert_eq!(result.as_ref().err().map(String::as_str), expected, "{names:?}");
        assert_eq!(result, checked, "{names:?}");
    }
}

#[test]
fn what_is_no_archive_is_refused_before_anything_is_made() {
    let not_an_archive = Error::NotAnArchive.to_string();
    for bytes in [&b""[..], b"P", b"<html>504 Gateway Time-out</html>", &[0; 2_000], b"Rar!\x1a\x07\x00"] {
        assert_eq!(message(bytes, &Limits::default()), not_an_archive);
    }
    // The right first bytes are not enough.
    for bytes in [&b"PK\x03\x04"[..], b"PK\x05\x06", &[&b"PK\x03\x04"[..], &[7; 500]].concat()] {
        assert!(message(bytes, &Limits::default()).starts_with("the archive is damaged"));
    }
    // An archive behind something else is for others to look for.
    let shifted = [b"#!/bin/sh\n".to_vec(), zip(&[stored("a", "x")])].concat();
    assert_eq!(message(&shifted, &Limits::default()), not_an_archive);
    // Cut off anywhere, it is damaged.
    let archive = zip(&[stored("a", "content"), deflated("b", b"content")]);
    for length in 4..archive.len() {
        assert!(message(&archive[..length], &Limits::default()).starts_with("the archive is damaged"), "{length}");
    }
}

#[test]
fn a_directory_that_claims_more_than_there_is_is_refused_at_once() {
    assert!(message(&with_directory(b"PK\x03\x04".to_vec(), b"", 65_000), &Limits::default()).contains("damaged"));
    // Zip64, with a number of entries that no memory holds.
    let mut bytes = b"PK\x03\x04PK\x06\x06".to_vec();
    bytes.extend(44_u64.to_le_bytes());
    bytes.extend([45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    for field in [1_u64 << 60, 1 << 60, 1 << 62, 4] {
        bytes.extend(field.to_le_bytes());
    }
    bytes.extend(b"PK\x06\x07\0\0\0\0");
    bytes.extend(4_u64.to_le_bytes());
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend([0xff; 12]);
    bytes.extend([0, 0]);
    Sandbox::new().unpack(&bytes, &Limits::default()).unwrap_err();
}

#[test]
fn only_an_empty_directory_is_unpacked_into() {
    let archive = zip(&[stored("a", "x")]);
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("mine"), "mine").unwrap();
    let result = baton_archive::unpack(Cursor::new(&archive), place.path(), &Limits::default());
    assert!(matches!(result, Err(Error::NotEmpty(_))), "{result:?}");
    assert_eq!(read_tree(place.path()), tree([("mine", Node::file("mine"))]));
    // An empty one that was there before stays, empty, after an error.
    let empty = place.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let bad = zip(&[stored("d/a", "x"), stored("b", "content").with(|entry| entry.crc ^= 1)]);
    baton_archive::unpack(Cursor::new(&bad), &empty, &Limits::default()).unwrap_err();
    assert_eq!(read_tree(&empty), tree([]));
    baton_archive::unpack(Cursor::new(&archive), &empty, &Limits::default()).unwrap();
    assert_eq!(read_tree(&empty), tree([("a", Node::file("x"))]));
}
