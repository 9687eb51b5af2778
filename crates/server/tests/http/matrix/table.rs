//! The declared table: what opens each operation of the document, and a request that is valid.
//!
//! `<run>`, `<lease>` and the like stand for fixtures (`world.rs`).

/// What opens an operation. Keys with the scope `admin` may do what any other scope may.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opens {
    /// Nothing is needed.
    Anybody,
    /// A key with the scope `read` or `submit`.
    Read,
    /// A key with the scope `submit`.
    Submit,
    /// A key with the scope `worker`.
    Worker,
    /// A key with the scope `submit` or `worker`.
    Bring,
    /// A key with the scope `admin`.
    Admin,
    /// A key with the scope `admin` that is good for all namespaces.
    Everything,
    /// Any API key.
    AnyKey,
    /// The key that began the upload. To all others it is unknown.
    Owner,
    /// As `Read`, or the token of the build.
    BuildRead,
    /// As `Submit`, or the token of the build.
    BuildSubmit,
    /// Whoever has the build: its builder by token or by name and key, its machine by token, a
    /// worker by lease and key.
    Holder,
    /// The same, and everybody who may work.
    HolderOrWorker,
    /// A builder, by its token or by its name and its key.
    Builder,
    /// The token of the runner.
    Runner,
    /// The join token of a machine.
    Join,
    /// The one-time password of a build, which is in the body.
    Password,
}

use Opens::{
    Admin, AnyKey, Anybody, Bring, BuildRead, BuildSubmit, Builder, Everything, Holder, HolderOrWorker, Join, Owner,
    Password, Read, Runner, Submit, Worker,
};

/// An operation.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub method: &'static str,
    pub path: &'static str,
    pub opens: Opens,
    /// JSON; or `form:` and `raw:`, which `call.rs` knows.
    pub body: &'static str,
    /// True when it is about the caller's own namespace, whoever calls: a foreign key is let in, and
    /// sees and changes nothing of ours.
    pub own: bool,
}

const fn row(method: &'static str, path: &'static str, opens: Opens, body: &'static str) -> Row {
    Row { method, path, opens, body, own: false }
}

const fn own(method: &'static str, path: &'static str, opens: Opens, body: &'static str) -> Row {
    Row { method, path, opens, body, own: true }
}

const LEASE: &str = r#"{"lease":"<lease>"}"#;
const LEASES: &str = r#"{"runs":[{"run_id":"<run>","lease":"<lease>"}]}"#;
const BUILD: &str = r#"{"worker_id":"<builder>","build_id":"<build>"}"#;
const GIT_BUILD: &str = r#"{"project_slug":"shop","version":"1","source_url":"https://git.example/shop.git",
    "ref":"main","docker_image":"rust:1"}"#;

pub const ROWS: &[Row] = &[
    own("GET", "/api/v1/whoami", AnyKey, ""),
    row("GET", "/docs/errors", Anybody, ""),
    // Builds, for those who submit them.
    own("GET", "/api/builds", Read, ""),
    own("POST", "/api/builds", Submit, "form:build"),
    own("POST", "/api/builds/submit", Submit, "form:build"),
    own("GET", "/api/builds/active", Read, ""),
    own("GET", "/api/builds/statistics", Read, ""),
    row("GET", "/api/builds/{id}", BuildRead, ""),
    row("GET", "/api/builds/{id}/status", BuildRead, ""),
    row("GET", "/api/builds/{id}/logs", BuildRead, ""),
    row("GET", "/api/builds/{id}/telemetry", BuildRead, ""),
    row("GET", "/api/builds/{id}/download", BuildRead, ""),
    row("GET", "/api/builds/{id}/download/{which}", BuildRead, ""),
    row("POST", "/api/builds/{id}/cancel", BuildSubmit, ""),
    row("POST", "/api/builds/{id}/retry", BuildSubmit, ""),
    // Builds, for those who build them.
    row("GET", "/api/builds/{id}/source", Holder, ""),
    row("GET", "/api/builds/{id}/certs", Holder, ""),
    row("GET", "/api/builds/{id}/certs-secure", Holder, ""),
    row("GET", "/api/builds/{id}/vm-status", HolderOrWorker, ""),
    row("POST", "/api/builds/{id}/vm-ready", Holder, ""),
    row("POST", "/api/builds/{id}/heartbeat", Holder, r#"{"progress":50}"#),
    row("POST", "/api/builds/{id}/logs", Holder, r#"{"level":"info","message":"a line"}"#),
    row("POST", "/api/builds/{id}/telemetry", Holder, r#"{"cpu":0.5}"#),
    row("POST", "/api/builds/{id}/artifact", Holder, "raw:"),
    row("POST", "/api/builds/{id}/authenticate", Password, r#"{"otp":"<otp>"}"#),
    // Builders.
    own("POST", "/api/workers/register", Worker, r#"{"name":"new","capabilities":{"platforms":["ios"]}}"#),
    own("GET", "/api/workers/poll", Builder, ""),
    row("POST", "/api/workers/heartbeat", Builder, BUILD),
    row("POST", "/api/workers/abandon", Builder, BUILD),
    row("POST", "/api/workers/fail", Builder, BUILD),
    row("POST", "/api/workers/upload", Builder, "form:result"),
    row("POST", "/api/workers/result", Builder, "form:result"),
    own("POST", "/api/workers/unregister", Builder, r#"{"worker_id":"<builder>"}"#),
    row("GET", "/api/workers/{id}/stats", Read, ""),
    own("POST", "/api/diagnostics/report", Worker, r#"{"worker_id":"<builder>","checks":[]}"#),
    own("GET", "/api/diagnostics/{worker_id}", Read, ""),
    row("GET", "/api/diagnostics/{worker_id}/latest", Read, ""),
    // Builds from repositories.
    own("POST", "/api/v1/builds", Submit, GIT_BUILD),
    own("GET", "/api/v1/builds/pending", Worker, ""),
    row("POST", "/api/v1/builds/{id}/result", Worker, r#"{"job_id":"<git>","status":"success","duration":1}"#),
    // Files.
    row("GET", "/api/v1/cache/{sha256}", Worker, ""),
    own("PUT", "/api/v1/cache/{sha256}", Worker, "raw:"),
    row("OPTIONS", "/api/v1/uploads", Anybody, ""),
    own("POST", "/api/v1/uploads", Bring, ""),
    row("HEAD", "/api/v1/uploads/{id}", Owner, ""),
    row("PATCH", "/api/v1/uploads/{id}", Owner, "raw:"),
    row("DELETE", "/api/v1/uploads/{id}", Owner, ""),
    own("GET", "/api/v1/events", Read, ""),
    own("GET", "/api/v1/statistics", Read, ""),
    own("GET", "/api/v1/attention", Read, ""),
    // Runs.
    own("GET", "/api/v1/runs", Read, ""),
    row("POST", "/api/v1/runs", Submit, r#"{"queue":"<queue>","type":"order"}"#),
    row("POST", "/api/v1/runs/batch", Submit, r#"{"runs":[{"queue":"<queue>","type":"order"}]}"#),
    row("GET", "/api/v1/runs/{id}", Read, ""),
    row("GET", "/api/v1/runs/{id}/history", Read, ""),
    row("GET", "/api/v1/runs/{id}/explain", Read, ""),
    row("POST", "/api/v1/runs/{id}/cancel", Submit, ""),
    row("POST", "/api/v1/runs/{id}/retry", Submit, ""),
    row("POST", "/api/v1/runs/{id}/start", Worker, LEASE),
    row("POST", "/api/v1/runs/{id}/sleep", Worker, r#"{"lease":"<lease>","ms":1}"#),
    row("POST", "/api/v1/runs/{id}/fail", Worker, r#"{"lease":"<lease>","error":"it broke"}"#),
    row("POST", "/api/v1/runs/{id}/give_back", Worker, LEASE),
    row("POST", "/api/v1/runs/{id}/complete", Worker, LEASE),
    row("POST", "/api/v1/runs/start", Worker, LEASES),
    row("POST", "/api/v1/runs/fail", Worker, r#"{"runs":[{"run_id":"<run>","lease":"<lease>","error":"it broke"}]}"#),
    row("POST", "/api/v1/runs/give_back", Worker, LEASES),
    row("POST", "/api/v1/runs/complete", Worker, LEASES),
    // Bulk operations.
    own("GET", "/api/v1/bulk", Read, ""),
    own("POST", "/api/v1/bulk", Submit, r#"{"action":"cancel","filter":{"key":"nobody's"}}"#),
    row("GET", "/api/v1/bulk/{id}", Read, ""),
    row("POST", "/api/v1/bulk/{id}/stop", Submit, ""),
    // Workers.
    own("GET", "/api/v1/workers", Read, ""),
    row("POST", "/api/v1/workers", Worker, r#"{"types":["order"],"queues":["<queue>"]}"#),
    row("GET", "/api/v1/workers/{id}", Read, ""),
    row("POST", "/api/v1/workers/{id}/heartbeat", Worker, r#"{"leases":[{"run_id":"<run>","lease":"<lease>"}]}"#),
    row("POST", "/api/v1/workers/{id}/claim", Worker, r#"{"wait_ms":0}"#),
    row("POST", "/api/v1/workers/{id}/deregister", Worker, ""),
    row("POST", "/api/v1/workers/{id}/drain", Admin, ""),
    row("POST", "/api/v1/workers/{id}/offline", Admin, ""),
    // Queues.
    own("GET", "/api/v1/queues", Read, ""),
    row("GET", "/api/v1/queues/{name}", Read, ""),
    row("PATCH", "/api/v1/queues/{name}", Admin, "{}"),
    row("POST", "/api/v1/queues/{name}/pause", Admin, ""),
    row("POST", "/api/v1/queues/{name}/resume", Admin, ""),
    // Schedules.
    own("GET", "/api/v1/webhooks", Read, ""),
    row(
        "POST",
        "/api/v1/webhooks",
        Admin,
        r#"{"namespace":"default","name":"new","url":"http://127.0.0.1:9/","filter":{"run":"none"}}"#,
    ),
    row("GET", "/api/v1/webhooks/{id}", Read, ""),
    row("PATCH", "/api/v1/webhooks/{id}", Admin, r#"{"filter":{"run":"another"}}"#),
    row("GET", "/api/v1/webhooks/{id}/deliveries", Admin, ""),
    row("POST", "/api/v1/webhooks/{id}/deliveries/{delivery}/replay", Admin, ""),
    row("POST", "/api/v1/webhooks/{id}/replay", Admin, "{}"),
    row("POST", "/api/v1/webhooks/{id}/pause", Admin, ""),
    row("POST", "/api/v1/webhooks/{id}/resume", Admin, ""),
    row("POST", "/api/v1/webhooks/{id}/rotate", Admin, "{}"),
    row("POST", "/api/v1/webhooks/{id}/test", Admin, ""),
    row("DELETE", "/api/v1/webhooks/{id}", Admin, ""),
    own("GET", "/api/v1/schedules", Read, ""),
    row("POST", "/api/v1/schedules", Submit, r#"{"id":"new","cron":"@daily","run":{"type":"order"}}"#),
    row("GET", "/api/v1/schedules/{id}", Read, ""),
    row("GET", "/api/v1/schedules/{id}/next", Read, ""),
    row("GET", "/api/v1/schedules/{id}/runs", Read, ""),
    row("PATCH", "/api/v1/schedules/{id}", Submit, r#"{"note":"changed"}"#),
    row("POST", "/api/v1/schedules/{id}/pause", Submit, ""),
    row("POST", "/api/v1/schedules/{id}/resume", Submit, ""),
    row("POST", "/api/v1/schedules/{id}/trigger", Submit, ""),
    row(
        "POST",
        "/api/v1/schedules/{id}/backfill",
        Submit,
        r#"{"from":"2023-11-01T00:00:00Z","to":"2023-11-03T00:00:00Z"}"#,
    ),
    row("DELETE", "/api/v1/schedules/{id}", Submit, ""),
    // Pools and their runners.
    own("GET", "/api/v1/pools", Read, ""),
    row("POST", "/api/v1/pools", Admin, r#"{"name":"new","provider":"fake","max_size":1}"#),
    row("GET", "/api/v1/pools/{pool}", Read, ""),
    row("PATCH", "/api/v1/pools/{pool}", Admin, r#"{"idle_ms":600000}"#),
    row("GET", "/api/v1/pools/{pool}/claims", Read, ""),
    row("POST", "/api/v1/pools/{pool}/claims", Submit, r#"{"run_id":"another","count":1}"#),
    row("GET", "/api/v1/pools/{pool}/claims/{run_id}", Read, ""),
    row("DELETE", "/api/v1/pools/{pool}/claims/{run_id}", Submit, ""),
    row("GET", "/api/v1/pools/{pool}/runners", Read, ""),
    row("GET", "/api/v1/pools/{pool}/runners/{id}", Read, ""),
    row("DELETE", "/api/v1/pools/{pool}/runners/{id}", Admin, ""),
    row("DELETE", "/api/v1/pools/{pool}", Admin, ""),
    row(
        "POST",
        "/api/v1/runners/join",
        Join,
        r#"{"machine_id":"<machine>","nonce":"00000000000000000000000000000001"}"#,
    ),
    row("POST", "/api/v1/runners/{id}/heartbeat", Runner, ""),
    row("GET", "/api/v1/runners/{id}/next", Runner, ""),
    row("POST", "/api/v1/runners/{id}/registration", Runner, r#"{"run_id":"<claim>","epoch":1}"#),
    row("DELETE", "/api/v1/runners/{id}/registration", Runner, ""),
    row("POST", "/api/v1/runners/{id}/signals", Runner, r#"{"signal":"UD_OK","epoch":0}"#),
    // Keys, namespaces, settings.
    own("GET", "/api/v1/keys", Admin, ""),
    own("POST", "/api/v1/keys", Admin, r#"{"name":"new","scopes":["read"]}"#),
    row("POST", "/api/v1/keys/{id}/rotate", Admin, ""),
    row("DELETE", "/api/v1/keys/{id}/sessions", Admin, ""),
    own("POST", "/api/v1/signin-links", AnyKey, ""),
    row("DELETE", "/api/v1/keys/{id}", Admin, ""),
    row("GET", "/api/v1/audit", Everything, ""),
    own("GET", "/api/v1/namespaces", Read, ""),
    row("POST", "/api/v1/namespaces", Everything, r#"{"name":"new"}"#),
    row("GET", "/api/v1/namespaces/{name}", Read, ""),
    row("PATCH", "/api/v1/namespaces/{name}", Everything, r#"{"description":"changed"}"#),
    row("POST", "/api/v1/namespaces/{name}/disable", Everything, ""),
    row("POST", "/api/v1/namespaces/{name}/enable", Everything, ""),
    row("GET", "/api/v1/secrets", Everything, ""),
    row("POST", "/api/v1/secrets/rotate", Everything, "{}"),
    row("GET", "/api/v1/settings", Everything, ""),
    row("PATCH", "/api/v1/settings", Everything, r#"{"set":{"refusals_per_second":999999}}"#),
    // For everybody.
    row("GET", "/api/health", Anybody, ""),
    row("GET", "/api/stats", Anybody, ""),
    row("GET", "/health", Anybody, ""),
    row("GET", "/healthz", Anybody, ""),
    row("GET", "/public/stats", Anybody, ""),
    row("GET", "/readyz", Anybody, ""),
    // From this machine, as long as there is no `metrics_key`; operations.rs has the others.
    row("GET", "/metrics", Anybody, ""),
];

/// Operations that cannot succeed with the fixtures there are, and what they answer instead.
pub const WITHOUT_SUCCESS: &[(&str, &str, u16)] = &[
    // Its build is still under way.
    ("GET", "/api/builds/{id}/download", 400),
    // The run is still under way.
    ("POST", "/api/v1/runs/{id}/retry", 422),
    // The pool registers its runners nowhere.
    ("POST", "/api/v1/runners/{id}/registration", 409),
];
