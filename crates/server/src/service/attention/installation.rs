//! What is wrong with the server itself: its disks, its storages, its database, its secret.

use baton_proto::Finding;

use super::{FAIL, WARN, finding};
use crate::App;

pub(super) async fn findings(app: &App, is_administrator: bool) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(used) = app.disks.full().await {
        let what = "nothing new can be written until there is room again";
        found.push(finding(FAIL, "disk_full", format!("The disk of the {used} is full"), what));
    }
    let newer = *app.newer_schema.lock().expect("nobody panics while holding it");
    if let Some((version, known)) = newer {
        let what = format!(
            "it has schema version {version}, and this server knows versions up to {known}: start the newer version of Baton"
        );
        found.push(finding(FAIL, "schema_newer", "The database was changed by a newer server", what));
    }
    for storage in app.storage.health().await {
        let Some(error) = storage.error else { continue };
        // Where it is and what it said is for administrators.
        let what = if is_administrator { format!("{}: {error}", storage.url) } else { "it cannot be used now".into() };
        found.push(finding(FAIL, "storage_failing", format!("The {} for artifacts", storage.role), what));
    }
    if is_administrator && let Ok(standing) = app.secrets.standing().await {
        found.extend(standing.trouble.map(|trouble| finding(WARN, "master_key", "The master key", trouble)));
    }
    found
}
