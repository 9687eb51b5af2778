//! Where this user's programs keep what they can do without.

use std::path::PathBuf;

/// The directory of all that Baton keeps there.
pub fn directory() -> PathBuf {
    let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = given("XDG_CACHE_HOME").or_else(|| given("HOME").map(|home| home.join(".cache")));
    base.unwrap_or_else(std::env::temp_dir).join("baton")
}
