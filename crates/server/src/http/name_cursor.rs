//! Cursors of lists that are in the order of namespace and name.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use baton_store::Page;

use crate::Error;

/// Between namespace and name: neither has it.
const SEPARATOR: char = '\u{1f}';

/// The page that is asked for, with one entry more: it tells whether there is another page.
pub(super) fn page(cursor: Option<&str>, limit: usize) -> Result<Page<(String, String)>, Error> {
    let wrong = || Error::field("cursor", "must be the next_cursor of the page before");
    let after = cursor.map(|cursor| read(cursor).ok_or_else(wrong)).transpose()?;
    Ok(Page { after, limit: limit + 1 })
}

/// The cursor of the next page, if there is one. The entry that told so is left out.
pub(super) fn next<T>(entries: &mut Vec<T>, limit: usize, name: impl Fn(&T) -> (&str, &str)) -> Option<String> {
    if entries.len() <= limit {
        return None;
    }
    entries.truncate(limit);
    let (namespace, name) = name(entries.last()?);
    Some(BASE64_URL_SAFE_NO_PAD.encode(format!("{namespace}{SEPARATOR}{name}")))
}

fn read(cursor: &str) -> Option<(String, String)> {
    let text = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
    let (namespace, name) = text.split_once(SEPARATOR)?;
    // PostgreSQL refuses it in every text.
    (!text.contains('\0')).then(|| (namespace.to_owned(), name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_with_the_cursor_of_the_next_if_there_is_one() {
        let all = [("a", "x"), ("a", "größer"), ("b", "x")];
        let mut entries = all.to_vec();
        let cursor = next(&mut entries, 2, |entry| *entry).unwrap();
        assert_eq!(entries, all[..2]);
        assert!(cursor.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{cursor}");
        let after = page(Some(&cursor), 2).unwrap();
        assert_eq!((after.after, after.limit), (Some(("a".into(), "größer".into())), 3));
        assert_eq!(next(&mut all.to_vec(), 3, |entry| *entry), None);
        for wrong in ["", "a\u{1f}b", "YQ", "YR9iAA", "====", "é"] {
            assert!(page(Some(wrong), 2).is_err(), "{wrong:?}");
        }
    }
}
