//! Which pages there are.

/// A page to look at.
#[derive(Clone, Debug)]
pub struct Shot {
    /// What its picture is called.
    pub name: String,
    pub path: String,
}

impl Shot {
    pub fn new(name: &str, path: String) -> Shot {
        Shot { name: name.into(), path }
    }
}

/// Pages that are there whatever a server knows.
pub fn everywhere() -> Vec<Shot> {
    [
        ("overview", "/"),
        ("overview-day", "/?t=day"),
        ("start", "/start"),
        ("start-build", "/start?kind=build"),
        ("start-workflow", "/start?kind=workflow"),
        ("start-pool", "/start?kind=pool"),
        ("more", "/more"),
        ("runs", "/runs"),
        ("runs-new", "/runs/new"),
        ("builds", "/builds"),
        ("workflows", "/workflows"),
        ("workflow-runs", "/workflows/runs"),
        ("schedules", "/schedules"),
        ("queues", "/queues"),
        ("workers", "/workers"),
        ("pools", "/pools"),
        ("namespaces", "/namespaces"),
        ("namespaces-choose", "/namespaces/choose"),
        ("keys", "/keys"),
        ("webhooks", "/webhooks"),
        ("audit", "/audit"),
        ("settings", "/settings"),
        ("not-found", "/runs/none"),
        ("form-key", "/form/keys/new"),
        ("form-webhook", "/form/webhooks/new"),
        ("form-new-pool", "/form/pools/new"),
        ("form-namespace", "/form/namespaces/new"),
    ]
    .map(|(name, path)| Shot::new(name, path.into()))
    .to_vec()
}
