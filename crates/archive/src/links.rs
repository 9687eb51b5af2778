//! Where a symbolic link of a tree may point.

use crate::error::Refusal;
use crate::name::{PATH_BYTES_MAX, has_drive_letter, shown};

/// Checks that the link at `path` cannot lead out of the tree, whatever else is in it. Returns the target as text.
///
/// Its target may climb only with its first parts, and not above the root. That is enough, also for chains of links: a
/// link lies in a real directory, because nothing is ever made under a link. So the climb starts at a known depth and
/// ends inside. From there each name leads down, or to another link, for which the same holds. A climb after a name
/// (`a/../..`) is refused, because `a` may be a link, or be one on file systems that do not tell `a` from `A`.
pub(crate) fn check_target<'target>(path: &str, target: &'target [u8]) -> Result<&'target str, Refusal> {
    let outside = || Refusal::LinkOutside(shown(target));
    let target = str::from_utf8(target).map_err(|_| outside())?;
    let is_plain = !target.is_empty() && target.len() <= PATH_BYTES_MAX && !target.contains(['\0', '\\']);
    if !is_plain || target.starts_with('/') || has_drive_letter(target) {
        return Err(outside());
    }
    let mut depth = path.split('/').count() - 1;
    let mut went_down = false;
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." if went_down || depth == 0 => return Err(outside()),
            ".." => depth -= 1,
            _ => went_down = true,
        }
    }
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::check_target;

    #[test]
    fn links_inside_are_taken_and_links_outside_are_not() {
        for (path, target) in [
            ("a", "b"),
            ("a", "b/c"),
            ("a", "."),
            ("d/a", ".."),
            ("d/a", "../b"),
            ("d/e/a", "../../b"),
            ("d/a", "./../b/"),
            ("a", "..b"),
        ] {
            assert!(check_target(path, target.as_bytes()).is_ok(), "{path} -> {target}");
        }
        for (path, target) in [
            ("a", ""),
            ("a", ".."),
            ("a", "../b"),
            ("a", "./.."),
            ("d/a", "../../b"),
            ("a", "b/.."),
            ("d/a", "b/../c"),
            ("a", "/etc/passwd"),
            ("a", "//etc"),
            ("a", "C:/x"),
            ("a", "..\\b"),
            ("a", "b\0c"),
        ] {
            assert!(check_target(path, target.as_bytes()).is_err(), "{path} -> {target}");
        }
        assert!(check_target("a", b"\xff").is_err());
        assert!(check_target("a", &[b'x'; 1025]).is_err());
    }
}
