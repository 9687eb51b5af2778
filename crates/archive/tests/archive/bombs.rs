//! Small archives that would fill a disk. They must cost next to nothing.

use std::cell::Cell;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::rc::Rc;
use std::time::{Duration, Instant};

use baton_archive::{Error, Limit, Limits, Refusal, check, unpack};
use flate2::{Compress, Compression, FlushCompress};
use tar::EntryType;

use crate::raw_tar::{gzip, with_header};
use crate::raw_zip::{link, stored, zip};

const CHUNK_BYTES: usize = 16 << 20;
/// Far above what any of these needs on a slow machine, and far below what unpacking all of it would take.
const QUICK: Duration = Duration::from_secs(20);

/// Zeros, compressed so that the result can be repeated.
fn chunk() -> Vec<u8> {
    let mut compress = Compress::new(Compression::best(), false);
    let mut bytes = Vec::with_capacity(1 << 20);
    compress.compress_vec(&vec![0; CHUNK_BYTES], &mut bytes, FlushCompress::Full).unwrap();
    assert_eq!(compress.total_in() as usize, CHUNK_BYTES);
    bytes
}

/// A deflate stream of `count` chunks.
fn deflate(count: usize) -> Vec<u8> {
    [chunk().repeat(count), vec![3, 0]].concat()
}

/// Counts what is read of an archive.
struct Counted<'a> {
    inner: Cursor<&'a [u8]>,
    bytes: Rc<Cell<usize>>,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.bytes.set(self.bytes.get() + count);
        Ok(count)
    }
}

impl Seek for Counted<'_> {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.inner.seek(position)
    }
}

/// Unpacks, and says what went wrong and how much of the archive was read until then.
fn explode(archive: &[u8], limits: &Limits) -> (Error, usize) {
    let place = tempfile::tempdir().unwrap();
    let bytes = Rc::new(Cell::new(0));
    let reader = Counted { inner: Cursor::new(archive), bytes: bytes.clone() };
    let start = Instant::now();
    let error = unpack(reader, &place.path().join("target"), limits).unwrap_err();
    assert!(start.elapsed() < QUICK, "{:?}", start.elapsed());
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    (error, bytes.get())
}

#[test]
fn an_honest_bomb_is_refused_by_its_directory() {
    let data = deflate(200);
    let bomb = stored("zeros", "").with(|entry| {
        entry.method = 8;
        entry.compressed_size = data.len() as u32;
        entry.size = (200 * CHUNK_BYTES) as u32;
        entry.data = data;
    });
    let archive = zip(&[bomb]);
    let (error, bytes_read) = explode(&archive, &Limits::default());
    assert!(matches!(error, Error::TooLarge(Limit::Ratio { ratio_max: 100 })), "{error}");
    assert!(bytes_read < 200_000, "{bytes_read} of {}", archive.len());
    assert!(matches!(check(Cursor::new(&archive), &Limits::default()), Err(Error::TooLarge(Limit::Ratio { .. }))));
}

#[test]
fn a_bomb_that_lies_about_its_size_ends_where_the_lie_shows() {
    let data = deflate(640);
    let bomb = stored("zeros", "").with(|entry| {
        entry.method = 8;
        entry.compressed_size = data.len() as u32;
        entry.size = 1_000;
        entry.data = data;
    });
    let archive = zip(&[bomb]);
    let (error, bytes_read) = explode(&archive, &Limits::default());
    assert!(matches!(error, Error::Damaged(_)), "{error}");
    // What is left of the entry is skipped by reading it once, as it is.
    assert!(bytes_read < archive.len() + 100_000, "{bytes_read} of {}", archive.len());
}

#[test]
fn links_that_share_a_large_target_do_not_make_it_be_read_again_and_again() {
    let large = vec![b'x'; 10 << 20];
    let shared = |number| {
        link(&format!("{number:04}"), "").with(|entry| {
            entry.offset = Some(0);
            entry.size = large.len() as u32;
            entry.compressed_size = large.len() as u32;
        })
    };
    let entries: Vec<_> = [stored("0000", &large)].into_iter().chain((1..1_000).map(shared)).collect();
    let (error, bytes_read) = explode(&zip(&entries), &Limits::default());
    assert!(matches!(error, Error::Refused { why: Refusal::NameTooLong, .. }), "{error}");
    assert!(bytes_read < 200_000, "{bytes_read}");
}

#[test]
fn a_compressed_tar_ends_at_the_ratio() {
    let limits = Limits { total_bytes_max: u64::MAX, file_bytes_max: u64::MAX, ..Limits::default() };
    // One file of 1 GiB, as one gzip stream after the other.
    let members = 64;
    let header = with_header(EntryType::Regular, "zeros", "", b"", |header| {
        header.set_size((members * CHUNK_BYTES) as u64);
    });
    let archive = [gzip(&header), gzip(&vec![0; CHUNK_BYTES]).repeat(members)].concat();
    let (error, bytes_read) = explode(&archive, &limits);
    assert!(matches!(error, Error::TooLarge(Limit::Ratio { ratio_max: 100 })), "{error}");
    // A hundredfold of the archive came out, at about a thousandfold per byte: a tenth of it was read.
    assert!(bytes_read < archive.len() / 5, "{bytes_read} of {}", archive.len());
}

#[test]
fn small_files_may_compress_as_well_as_they_like() {
    let place = tempfile::tempdir().unwrap();
    let data = deflate(3);
    let content = vec![0; 3 * CHUNK_BYTES];
    let entry = stored("zeros", &content).with(|entry| {
        entry.method = 8;
        entry.compressed_size = data.len() as u32;
        entry.data = data;
    });
    let contents = unpack(Cursor::new(zip(&[entry])), &place.path().join("target"), &Limits::default()).unwrap();
    assert_eq!(contents.bytes, content.len() as u64);
}
