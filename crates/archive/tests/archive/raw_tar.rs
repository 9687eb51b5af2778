//! Tars as no library makes them.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{EntryType, Header};

/// One entry: a header, content, and padding.
pub fn entry(kind: EntryType, name: &str, link: &str, content: &[u8]) -> Vec<u8> {
    with_header(kind, name, link, content, |_| {})
}

pub fn file(name: &str, content: &[u8]) -> Vec<u8> {
    entry(EntryType::Regular, name, "", content)
}

pub fn with_header(
    kind: EntryType,
    name: &str,
    link: &str,
    content: &[u8],
    change: impl FnOnce(&mut Header),
) -> Vec<u8> {
    let mut header = Header::new_ustar();
    // Past the checks of the library.
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(content.len() as u64);
    change(&mut header);
    header.set_cksum();
    [header.as_bytes(), &padded(content)[..]].concat()
}

/// A name, or anything else, that stands in an entry of its own before the entry it is about.
pub fn pax(key: &str, value: &str) -> Vec<u8> {
    // The length counts itself.
    let rest = format!(" {key}={value}\n");
    let mut length = rest.len() + 1;
    while length != rest.len() + length.to_string().len() {
        length += 1;
    }
    entry(EntryType::XHeader, "pax", "", format!("{length}{rest}").as_bytes())
}

pub fn long_name(name: &str) -> Vec<u8> {
    entry(EntryType::GNULongName, "././@LongLink", "", format!("{name}\0").as_bytes())
}

fn padded(content: &[u8]) -> Vec<u8> {
    let mut bytes = content.to_vec();
    bytes.resize(content.len().next_multiple_of(512), 0);
    bytes
}

pub fn tar(entries: &[Vec<u8>]) -> Vec<u8> {
    [entries.concat(), vec![0; 1_024]].concat()
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
