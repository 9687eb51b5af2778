//! Zips as no library makes them.

use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;

pub const REGULAR: u32 = 0o100_644;
pub const DIRECTORY: u32 = 0o040_755;
pub const LINK: u32 = 0o120_777;

/// One entry, honest unless told otherwise.
#[derive(Clone)]
pub struct Entry {
    pub name: Vec<u8>,
    /// The name in the local header, where it is another one.
    pub local_name: Option<Vec<u8>>,
    pub mode: u32,
    pub flags: u16,
    pub method: u16,
    pub crc: u32,
    /// The bytes as they are in the archive.
    pub data: Vec<u8>,
    pub compressed_size: u32,
    pub size: u32,
    /// Extra fields, in both headers.
    pub extra: Vec<u8>,
    /// Where the directory says the entry starts, where that is not true.
    pub offset: Option<u32>,
}

pub fn stored(name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> Entry {
    let content = content.as_ref();
    Entry {
        name: name.as_ref().to_vec(),
        local_name: None,
        mode: REGULAR,
        flags: 0,
        method: 0,
        crc: crc32fast::hash(content),
        data: content.to_vec(),
        compressed_size: content.len() as u32,
        size: content.len() as u32,
        extra: Vec::new(),
        offset: None,
    }
}

pub fn deflated(name: impl AsRef<[u8]>, content: &[u8]) -> Entry {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content).unwrap();
    let data = encoder.finish().unwrap();
    Entry { method: 8, compressed_size: data.len() as u32, data, ..stored(name, content) }
        .with(|entry| entry.size = content.len() as u32)
}

pub fn link(name: &str, target: impl AsRef<[u8]>) -> Entry {
    stored(name, target).with(|entry| entry.mode = LINK)
}

pub fn directory(name: &str) -> Entry {
    stored(name, "").with(|entry| entry.mode = DIRECTORY)
}

impl Entry {
    pub fn with(mut self, change: impl FnOnce(&mut Entry)) -> Entry {
        change(&mut self);
        self
    }
}

pub fn local_header(entry: &Entry) -> Vec<u8> {
    let name = entry.local_name.as_ref().unwrap_or(&entry.name);
    let mut bytes = b"PK\x03\x04".to_vec();
    for field in [20, entry.flags, entry.method, 0, 0x21] {
        bytes.extend(field.to_le_bytes());
    }
    for field in [entry.crc, entry.compressed_size, entry.size] {
        bytes.extend(field.to_le_bytes());
    }
    bytes.extend((name.len() as u16).to_le_bytes());
    bytes.extend((entry.extra.len() as u16).to_le_bytes());
    bytes.extend(name);
    bytes.extend(&entry.extra);
    bytes
}

pub fn central_header(entry: &Entry, offset: u32) -> Vec<u8> {
    let mut bytes = b"PK\x01\x02".to_vec();
    // Made by Unix: without that, nobody looks at the mode.
    for field in [3 << 8 | 20, 20, entry.flags, entry.method, 0, 0x21] {
        bytes.extend(u16::to_le_bytes(field));
    }
    for field in [entry.crc, entry.compressed_size, entry.size] {
        bytes.extend(field.to_le_bytes());
    }
    for field in [entry.name.len() as u16, entry.extra.len() as u16, 0, 0, 0] {
        bytes.extend(field.to_le_bytes());
    }
    bytes.extend((entry.mode << 16).to_le_bytes());
    bytes.extend(entry.offset.unwrap_or(offset).to_le_bytes());
    bytes.extend(&entry.name);
    bytes.extend(&entry.extra);
    bytes
}

pub fn zip(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut central = Vec::new();
    for entry in entries {
        central.extend(central_header(entry, bytes.len() as u32));
        bytes.extend(local_header(entry));
        bytes.extend(&entry.data);
    }
    with_directory(bytes, &central, entries.len() as u16)
}

/// Puts a directory behind `bytes`, and the record that says where it is.
pub fn with_directory(mut bytes: Vec<u8>, central: &[u8], count: u16) -> Vec<u8> {
    let start = bytes.len() as u32;
    bytes.extend(central);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend([count.to_le_bytes(), count.to_le_bytes()].concat());
    bytes.extend((central.len() as u32).to_le_bytes());
    bytes.extend(start.to_le_bytes());
    bytes.extend([0, 0]);
    bytes
}

/// Entries that all claim their own header and everything up to the end of a kernel they share: each quotes the
/// headers of the following ones as stored blocks of its own content.
pub fn quoted_overlap(count: usize, kernel: &[u8]) -> Vec<u8> {
    let last = deflated("last", kernel);
    let mut bytes = [local_header(&last), last.data.clone()].concat();
    let mut entries = vec![last];
    for number in 0..count {
        // A stored block that is not the last: type, length, its complement, and then what is quoted.
        let quoted = local_header(&entries[entries.len() - 1]).len() as u16;
        let block = [&[0][..], &quoted.to_le_bytes(), &(!quoted).to_le_bytes()].concat();
        let data_length = (block.len() + bytes.len()) as u32;
        let previous = entries[entries.len() - 1].clone();
        let entry = stored(format!("{number:05}"), "").with(|entry| {
            entry.method = 8;
            entry.compressed_size = data_length;
            entry.size = previous.size + u32::from(quoted);
        });
        bytes = [local_header(&entry), block, bytes].concat();
        entries.push(entry);
    }
    entries.reverse();
    let mut offset = 0;
    let mut central = Vec::new();
    for entry in &entries {
        central.extend(central_header(entry, offset));
        offset += (local_header(entry).len() + 5) as u32;
    }
    with_directory(bytes, &central, entries.len() as u16)
}
