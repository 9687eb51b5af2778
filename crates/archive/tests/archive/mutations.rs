//! Archives with some bytes changed: whatever comes of it, nothing panics and nothing is written outside.

use std::io::Cursor;

use baton_archive::{Limits, certs, check};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_oneof, proptest};
use proptest::sample::Index;
use tar::EntryType;

use crate::raw_tar::{entry, file, gzip, long_name, pax, tar};
use crate::raw_zip::{deflated, directory, link, stored, zip};
use crate::sandbox::Sandbox;

/// One change of an archive.
#[derive(Clone, Debug)]
enum Change {
    Set(Index, u8),
    Flip(Index, u8),
    /// A number that is as large as it gets, or nothing.
    Fill(Index, u8, usize),
    Copy(Index, Index, usize),
    Remove(Index, usize),
    Cut(Index),
}

fn change() -> impl Strategy<Value = Change> {
    let place = any::<Index>;
    prop_oneof![
        4 => (place(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        4 => (place(), 0..8_u8).prop_map(|(at, bit)| Change::Flip(at, bit)),
        2 => (place(), prop_oneof![0..=0_u8, 255..=255_u8], 1..9_usize).prop_map(|(at, byte, n)| Change::Fill(at, byte, n)),
        2 => (place(), place(), 1..64_usize).prop_map(|(from, to, count)| Change::Copy(from, to, count)),
        1 => (place(), 1..64_usize).prop_map(|(at, count)| Change::Remove(at, count)),
        1 => place().prop_map(Change::Cut),
    ]
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    let length = bytes.len();
    if length == 0 {
        return;
    }
    match change {
        Change::Set(at, byte) => bytes[at.index(length)] = *byte,
        Change::Flip(at, bit) => bytes[at.index(length)] ^= 1 << bit,
        Change::Fill(at, byte, count) => {
            let start = at.index(length);
            bytes[start..length.min(start + count)].fill(*byte);
        }
        Change::Copy(from, to, count) => {
            let (from, to) = (from.index(length), to.index(length));
            let count = (*count).min(length - from.max(to));
            bytes.copy_within(from..from + count, to);
        }
        Change::Remove(at, count) => {
            let start = at.index(length);
            bytes.drain(start..length.min(start + count));
        }
        Change::Cut(at) => bytes.truncate(at.index(length)),
    }
}

fn good_zip() -> Vec<u8> {
    zip(&[
        directory("d/"),
        stored("d/..a", "stored"),
        deflated("d/b", &[b'x'; 3_000]),
        link("d/l", "../d/b"),
        stored("keys.p12", "key"),
        stored("password.txt", "secret"),
    ])
}

fn good_tar() -> Vec<u8> {
    tar(&[
        entry(EntryType::Directory, "d/", "", b""),
        file("d/..a", b"content"),
        pax("path", "d/long/..name"),
        file("cut", &[b'x'; 700]),
        long_name("d/other/..name"),
        file("cut", b"x"),
        entry(EntryType::Symlink, "d/l", "../d/..a", b""),
        entry(EntryType::Link, "again", "d/..a", b""),
    ])
}

fn survives(archive: &[u8]) {
    let limits = Limits { total_bytes_max: 1 << 20, entries_max: 100, ..Limits::default() };
    let unpacked = Sandbox::new().unpack(archive, &limits);
    let checked = check(Cursor::new(archive), &limits);
    // What was unpacked had been taken by the check as well.
    if let Ok(contents) = unpacked {
        assert_eq!(checked.unwrap(), contents);
    }
    let _ = certs(Cursor::new(archive));
}

proptest! {
    #[test]
    fn a_changed_zip_does_no_harm(changes in vec(change(), 1..6)) {
        let mut archive = good_zip();
        changes.iter().for_each(|change| apply(&mut archive, change));
        survives(&archive);
    }

    #[test]
    fn a_changed_tar_does_no_harm(changes in vec(change(), 1..6), fix_checksums in any::<bool>()) {
        let mut archive = good_tar();
        changes.iter().for_each(|change| apply(&mut archive, change));
        if fix_checksums {
            repair_checksums(&mut archive);
        }
        survives(&archive);
        survives(&gzip(&archive));
    }

    #[test]
    fn a_changed_stream_does_no_harm(changes in vec(change(), 1..4)) {
        let mut archive = gzip(&good_tar());
        changes.iter().for_each(|change| apply(&mut archive, change));
        survives(&archive);
    }
}

/// Makes the headers of a tar count again: without this, hardly a change gets past their checksums.
fn repair_checksums(archive: &mut [u8]) {
    for block in archive.chunks_exact_mut(512).filter(|block| block[257..].starts_with(b"ustar")) {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
}

#[test]
fn the_archives_are_good_before_they_are_changed() {
    for archive in [good_zip(), good_tar(), gzip(&good_tar())] {
        Sandbox::new().unpack(&archive, &Limits::default()).unwrap();
    }
    let mut repaired = good_tar();
    repair_checksums(&mut repaired);
    Sandbox::new().unpack(&repaired, &Limits::default()).unwrap();
    certs(Cursor::new(good_zip())).unwrap();
}
