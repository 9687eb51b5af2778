//! The stylesheet, the script and the icons. Their addresses have a hash of what is in them, so that browsers keep them
//! for good and never see an old one.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("../assets/baton.css");
const SCRIPT: &str = include_str!("../assets/baton.js");
const ICONS: &str = include_str!("../assets/icons.svg");
const FAVICON: &str = include_str!("../assets/favicon.svg");

/// Changes with each of the files.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    [STYLE, SCRIPT, FAVICON].iter().for_each(|file| hash.update(file));
    hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
});

/// The address of a file.
pub fn address(file: &str) -> String {
    format!("/assets/{}/{file}", *VERSION)
}

/// The symbols that pages point at with `<use>`; they stand at the beginning of each page.
pub fn icons() -> &'static str {
    ICONS
}

pub async fn file(Path((version, file)): Path<(String, String)>) -> Response {
    let (content_type, content) = match file.as_str() {
        "baton.css" => ("text/css; charset=utf-8", STYLE),
        "baton.js" => ("text/javascript; charset=utf-8", SCRIPT),
        "favicon.svg" => ("image/svg+xml", FAVICON),
        _ => return (StatusCode::NOT_FOUND, "There is no such file.").into_response(),
    };
    // Another server of the same installation may still be, or already be, of another version.
    let keep = if version == *VERSION { "public, max-age=31536000, immutable" } else { "no-store" };
    ([(CONTENT_TYPE, content_type), (CACHE_CONTROL, keep)], content).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_small_and_ask_nobody_else() {
        assert!(STYLE.len() <= 56_000, "{}", STYLE.len());
        assert!(SCRIPT.len() <= 25_000, "{}", SCRIPT.len());
        for file in [STYLE, SCRIPT, ICONS] {
            let others = file.replace("http://www.w3.org/2000/svg", "");
            assert!(!others.contains("http:") && !others.contains("https:") && !others.contains("@import"));
        }
    }
}
