//! Where the storage is, as the settings say it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::s3::S3Address;

/// A storage URL that was understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum StorageUrl {
    Directory(PathBuf),
    S3(S3Address),
}

/// As logs and administrators see it. There are no credentials in it: they are refused.
impl fmt::Display for StorageUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StorageUrl::Directory(path) => write!(f, "{}", path.display()),
            StorageUrl::S3(S3Address { bucket, prefix, endpoint, region: _ }) => {
                let slash = if prefix.is_empty() { "" } else { "/" };
                write!(f, "s3://{bucket}{slash}{prefix}")?;
                endpoint.iter().try_for_each(|endpoint| write!(f, "?endpoint={endpoint}"))
            }
        }
    }
}

const EXPECTED: &str = "a path, file:///directory, or s3://bucket/prefix?endpoint=URL&region=NAME";

impl FromStr for StorageUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<StorageUrl, String> {
        let wrong = |why: &str| format!("the storage must be {EXPECTED}; {why}");
        if let Some(rest) = text.strip_prefix("s3://") {
            return s3(rest).map(StorageUrl::S3).map_err(|why| wrong(&why));
        }
        if let Some(path) = text.strip_prefix("file://") {
            // file://name/... would be another machine's.
            return match path.starts_with('/') {
                true => Ok(StorageUrl::Directory(decode(path).ok_or_else(|| wrong("the path is not UTF-8"))?.into())),
                false => Err(wrong("file:// is followed by an absolute path")),
            };
        }
        match text.split_once("://") {
            Some((scheme, _)) => Err(wrong(&unknown_scheme(scheme))),
            None if text.is_empty() => Err(wrong("it is empty")),
            None if may_hold_credentials(text) => Err(wrong("this is none of them")),
            None => Ok(StorageUrl::Directory(text.into())),
        }
    }
}

fn s3(rest: &str) -> Result<S3Address, String> {
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
    if bucket.is_empty() {
        return Err("the bucket is missing".into());
    }
    if bucket.contains(['@', ':']) {
        return Err("a bucket has no user and no password; credentials go into AWS_ACCESS_KEY_ID and the like".into());
    }
    let mut address =
        S3Address { bucket: bucket.into(), prefix: prefix.trim_matches('/').into(), endpoint: None, region: None };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = decode(value).ok_or("a parameter is not UTF-8")?;
        match key {
            "endpoint" if value.contains(['@', '?']) => {
                return Err(
                    "endpoint has no user and no query; credentials go into AWS_ACCESS_KEY_ID and the like".into()
                );
            }
            "endpoint" if value.starts_with("http://") || value.starts_with("https://") => {
                address.endpoint = Some(value)
            }
            "endpoint" => return Err("endpoint starts with http:// or https://".into()),
            "region" => address.region = Some(value),
            _ => {
                return Err("no other parameter than endpoint and region is known; credentials go into \
                            AWS_ACCESS_KEY_ID and the like"
                    .into());
            }
        }
    }
    Ok(address)
}

/// What is said of a scheme that is not known. What does not look like one is not repeated: it may be anything.
pub(crate) fn unknown_scheme(scheme: &str) -> String {
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+.-".contains(c);
    match scheme.chars().all(is_scheme) {
        true => format!("{scheme}:// is not known"),
        false => "it has a scheme that is not known".into(),
    }
}

/// Whether this, where a path is expected, looks like user and password before a host, or like parameters of a
/// connection. Such text is not taken for a path, because paths are shown.
pub(crate) fn may_hold_credentials(text: &str) -> bool {
    let is_path = text.starts_with(['/', '.']);
    let has_user = text.split_once('@').is_some_and(|(before, _)| before.contains(':'));
    !is_path && (has_user || text.contains("password="))
}

/// Undoes percent-encoding. A `%` without two digits after it is meant as it is.
fn decode(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 3).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        match (bytes[at], digits.and_then(|digits| std::str::from_utf8(digits).ok())) {
            (b'%', Some(digits)) => {
                decoded.push(u8::from_str_radix(digits, 16).ok()?);
                at += 3;
            }
            (byte, _) => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(bucket: &str, prefix: &str, endpoint: Option<&str>, region: Option<&str>) -> Result<StorageUrl, String> {
        let (endpoint, region) = (endpoint.map(str::to_owned), region.map(str::to_owned));
        Ok(StorageUrl::S3(S3Address { bucket: bucket.into(), prefix: prefix.into(), endpoint, region }))
    }

    #[test]
    fn directories_and_buckets_are_told_apart() {
        assert_eq!("/var/lib/x".parse(), Ok(StorageUrl::Directory("/var/lib/x".into())));
        assert_eq!("relative/x".parse(), Ok(StorageUrl::Directory("relative/x".into())));
        assert_eq!("file:///a%20b".parse(), Ok(StorageUrl::Directory("/a b".into())));
        assert_eq!("s3://b".parse(), bucket("b", "", None, None));
        assert_eq!("s3://b/p/q/".parse(), bucket("b", "p/q", None, None));
        assert_eq!(
            "s3://b/p?endpoint=http%3A%2F%2Flocalhost:9000&region=eu-north-1".parse(),
            bucket("b", "p", Some("http://localhost:9000"), Some("eu-north-1"))
        );
    }

    #[test]
    fn a_storage_is_named_by_where_it_is() {
        for (url, name) in [
            ("/var/lib/x", "/var/lib/x"),
            ("file:///a%20b", "/a b"),
            ("s3://b/p/?region=eu-north-1", "s3://b/p"),
            ("s3://b?region=x&endpoint=http%3A%2F%2Fminio:9000", "s3://b?endpoint=http://minio:9000"),
        ] {
            assert_eq!(url.parse::<StorageUrl>().unwrap().to_string(), name);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (url, word) in [
            ("", "empty"),
            ("s3://", "bucket"),
            ("gs://b", "gs://"),
            ("file://host/x", "absolute"),
            ("s3://b?secret=x", "AWS_ACCESS_KEY_ID"),
            ("s3://b?endpoint=localhost", "http://"),
            ("s3://b?endpoint=http://me:secret@localhost", "AWS_ACCESS_KEY_ID"),
            ("s3://me:secret@b/p", "AWS_ACCESS_KEY_ID"),
            ("s3://b?secret", "AWS_ACCESS_KEY_ID"),
            ("s3://b?region=%FF&secret=%FF", "UTF-8"),
            ("me:secret@host/x", "s3://bucket"),
            ("me:secret@host://x", "scheme"),
        ] {
            let error = url.parse::<StorageUrl>().unwrap_err();
            assert!(error.contains(word) && !error.contains("secret"), "{url}: {error}");
        }
    }
}
