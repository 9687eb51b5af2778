//! Names of entries: which ones are taken, and how the others are shown.

use std::fmt::Write as _;

use crate::error::{Error, Refusal};

/// The longest name of one file or directory, in bytes: what common file systems take.
pub const NAME_BYTES_MAX: usize = 255;
/// The longest path inside an archive, in bytes: what the strictest of the systems takes.
pub const PATH_BYTES_MAX: usize = 1024;
/// How much of a name an error shows, in bytes.
const SHOWN_BYTES_MAX: usize = 300;

/// The path of an entry, relative to the root of the tree: names with single slashes between them. It is empty for the
/// root itself, which a tar names `./`.
pub(crate) fn entry_path(raw: &[u8]) -> Result<String, Error> {
    let refused = |why| Err(Error::refused(raw, why));
    if raw.contains(&0) {
        return refused(Refusal::NulByte);
    }
    let Ok(name) = str::from_utf8(raw) else {
        return refused(Refusal::NotUtf8);
    };
    if name.is_empty() {
        return refused(Refusal::EmptyName);
    }
    if name.contains('\\') {
        return refused(Refusal::Backslash);
    }
    if name.starts_with('/') {
        return refused(Refusal::AbsolutePath);
    }
    if has_drive_letter(name) {
        return refused(Refusal::DriveLetter);
    }
    let mut path = String::with_capacity(name.len());
    for part in name.strip_suffix('/').unwrap_or(name).split('/') {
        match part {
            "" => return refused(Refusal::EmptyName),
            "." => continue,
            ".." => return refused(Refusal::ParentPath),
            part if part.len() > NAME_BYTES_MAX => return refused(Refusal::NameTooLong),
            // `./C:x` would otherwise slip through.
            part if path.is_empty() && has_drive_letter(part) => return refused(Refusal::DriveLetter),
            part => {
                if !path.is_empty() {
                    path.push('/');
                }
                path.push_str(part);
            }
        }
    }
    if path.len() > PATH_BYTES_MAX {
        return refused(Refusal::NameTooLong);
    }
    Ok(path)
}

pub(crate) fn has_drive_letter(name: &str) -> bool {
    matches!(name.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic())
}

/// A name as an error shows it: one line, no control characters, not too long.
pub(crate) fn shown(raw: &[u8]) -> String {
    let is_cut = raw.len() > SHOWN_BYTES_MAX;
    let mut text = String::new();
    for chunk in raw[..raw.len().min(SHOWN_BYTES_MAX)].utf8_chunks() {
        for letter in chunk.valid().chars() {
            if letter.is_control() || turns_direction(letter) {
                text.extend(letter.escape_default());
            } else {
                text.push(letter);
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    if is_cut {
        text.push('…');
    }
    text
}

/// Marks that turn the direction of writing make a name look like another one, and some letters end a line.
fn turns_direction(letter: char) -> bool {
    matches!(letter, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::{Refusal, entry_path, shown};
    use crate::Error;

    #[test]
    fn good_names_are_taken_as_they_are() {
        for (raw, path) in [
            ("a", "a"),
            ("a/b.txt", "a/b.txt"),
            ("a/", "a"),
            ("./a/./b", "a/b"),
            ("./", ""),
            (".", ""),
            ("..a/b..", "..a/b.."),
            ("...", "..."),
            ("für/日本.txt", "für/日本.txt"),
            ("a b/-rf", "a b/-rf"),
            ("ab:c", "ab:c"),
        ] {
            assert_eq!(entry_path(raw.as_bytes()).unwrap(), path, "{raw}");
        }
        entry_path(&[b'x'; 255]).unwrap();
    }

    #[test]
    fn bad_names_are_refused() {
        let long = "x".repeat(256);
        let long_path = ["y"; 600].join("/");
        for (raw, expected) in [
            (&b""[..], Refusal::EmptyName),
            (b"a//b", Refusal::EmptyName),
            (b"a//", Refusal::EmptyName),
            (b"/etc/passwd", Refusal::AbsolutePath),
            (b"//host/share", Refusal::AbsolutePath),
            (b"..", Refusal::ParentPath),
            (b"../a", Refusal::ParentPath),
            (b"a/../../b", Refusal::ParentPath),
            (b"a/..", Refusal::ParentPath),
            (b"./../a", Refusal::ParentPath),
            (b"C:", Refusal::DriveLetter),
            (b"c:/windows", Refusal::DriveLetter),
            (b"./c:x", Refusal::DriveLetter),
            (b"..\\a", Refusal::Backslash),
            (b"\\\\host\\share", Refusal::Backslash),
            (b"a\0b", Refusal::NulByte),
            (b"a\xff", Refusal::NotUtf8),
            (b"a/\xc0\xae\xc0\xae/b", Refusal::NotUtf8),
            (long.as_bytes(), Refusal::NameTooLong),
            (long_path.as_bytes(), Refusal::NameTooLong),
        ] {
            match entry_path(raw) {
                Err(Error::Refused { why, .. }) => assert_eq!(why, expected, "{}", shown(raw)),
                other => panic!("{}: {other:?}", shown(raw)),
            }
        }
    }

    #[test]
    fn a_shown_name_cannot_play_with_the_terminal() {
        assert_eq!(shown(b"a\x1b[2J\xff\n"), "a\\u{1b}[2J\\xff\\n");
        assert_eq!(shown("\u{202e}gpj.exe".as_bytes()), "\\u{202e}gpj.exe");
        assert!(shown(&[b'x'; 70_000]).len() < 320);
    }
}
