//! Makes a request of a row, for a role.

use baton::proto::API_KEY_HEADER;

use super::roles::Role;
use super::table::Row;
use super::world::{BYTES, Renewed, Things, World, build_form};
use crate::builds::rig::{BOUNDARY, Part, form};
use crate::harness::Answer;

/// What `{id}` is, by how a path begins.
const IDS: [(&str, &str); 12] = [
    ("/api/v1/runs/", "<run>"),
    ("/api/v1/workers/", "<worker>"),
    ("/api/v1/builds/", "<git>"),
    ("/api/builds/", "<build>"),
    ("/api/workers/", "<builder>"),
    ("/api/v1/keys/", "<key>"),
    ("/api/v1/schedules/", "<schedule>"),
    ("/api/v1/uploads/", "<upload>"),
    ("/api/v1/bulk/", "<bulk>"),
    ("/api/v1/webhooks/", "<webhook>"),
    ("/api/v1/pools/", "<runner>"),
    ("/api/v1/runners/", "<runner>"),
];

/// Names nothing, where identifiers look like this.
const UNKNOWN: &str = "018bcfe5-6800-7000-8000-000000000000";

/// What requests name things by, and a name that nothing has.
const NAMES: [(&str, &str); 19] = [
    ("run", UNKNOWN),
    ("worker", UNKNOWN),
    ("git", UNKNOWN),
    ("build", UNKNOWN),
    ("native", UNKNOWN),
    ("sealed", UNKNOWN),
    ("builder", "made-up"),
    ("key", "key_000000000000"),
    ("schedule", "made-up"),
    ("upload", UNKNOWN),
    ("bulk", UNKNOWN),
    ("webhook", UNKNOWN),
    ("delivery", UNKNOWN),
    ("runner", UNKNOWN),
    ("pool", "made-up"),
    ("claim", "made-up"),
    ("machine", "made-up"),
    ("namespace", "made-up"),
    ("sum", "0000000000000000000000000000000000000000000000000000000000000000"),
];

/// Puts things where they are named.
pub fn fill(text: &str, things: &Things) -> String {
    things.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("<{name}>"), value))
}

impl Row {
    /// Its path and query, with names of things.
    fn template(&self) -> String {
        let id = IDS.iter().find(|(begin, _)| self.path.starts_with(begin)).map_or("", |(_, id)| id);
        let name = if self.path.contains("/queues/") { "<queue>" } else { "<namespace>" };
        let mut path = self.path.to_owned();
        if self.path.ends_with("/authenticate") {
            path = path.replace("{id}", "<sealed>");
        }
        for (placeholder, thing) in [
            ("{id}", id),
            ("{name}", name),
            ("{pool}", "<pool>"),
            ("{run_id}", "<claim>"),
            ("{sha256}", "<sum>"),
            ("{worker_id}", "<builder>"),
            ("{delivery}", "<delivery>"),
            ("{which}", "source"),
        ] {
            path = path.replace(placeholder, thing);
        }
        match self.path {
            "/api/workers/poll" => path + "?worker_id=<builder>",
            // Otherwise it does not end.
            "/api/v1/events" => path + "?wait_ms=1",
            _ => path,
        }
    }

    /// True when the request names something that others may not know of.
    pub fn names_something(&self) -> bool {
        let body = if self.body == "form:result" { "<build>" } else { self.body };
        let whole = self.template() + body;
        NAMES.iter().any(|(name, _)| whole.contains(&format!("<{name}>")))
    }

    /// What such a call may end.
    pub fn renews(&self) -> Option<Renewed> {
        let parts = [
            ("/api/v1/runs/", Renewed::Run),
            ("/api/v1/workers/", Renewed::Run),
            ("/api/builds/{", Renewed::Build),
            ("/api/workers/", Renewed::Build),
            ("/api/v1/builds/{", Renewed::GitBuild),
            ("/api/v1/pools/{", Renewed::Pool),
            ("/api/v1/schedules/{", Renewed::Schedule),
            ("/api/v1/keys/{", Renewed::Key),
            ("/api/v1/uploads/{", Renewed::Upload),
            ("/api/v1/webhooks/{", Renewed::Webhook),
        ];
        let part = parts.into_iter().find(|(begin, _)| self.path.starts_with(begin)).map(|(_, part)| part);
        part.filter(|_| self.method != "GET" || self.path == "/api/workers/poll")
    }
}

impl World {
    /// Sends a row's request as this role does.
    pub async fn ask(&self, row: &Row, role: Role) -> Answer {
        self.ask_about(row, role, &self.ours).await
    }

    /// The same request about things that do not exist, and the answer to it.
    pub async fn ask_about_nothing(&self, row: &Row, role: Role) -> Answer {
        let mut nothing = self.ours.clone();
        nothing.extend(NAMES.iter().map(|(name, made_up)| (*name, (*made_up).to_owned())));
        self.ask_about(row, role, &nothing).await
    }

    async fn ask_about(&self, row: &Row, role: Role, things: &Things) -> Answer {
        let mut things = things.clone();
        // A lease and a password of the foreign tenant, where that is what is shown.
        if role == Role::ForeignLease {
            things.insert("lease", self.theirs["lease"].clone());
        }
        if role != Role::Password {
            things.insert("otp", self.theirs["otp"].clone());
        }
        if matches!(role, Role::Lease | Role::ReaderWithLease | Role::ForeignHolder) {
            things.insert("build", things["native"].clone());
        }
        let mut request = self.rig.server.request(row.method, &fill(&row.template(), &things));
        // Answers are compared to the byte, and errors name their request.
        request = request.header("x-request-id", "the-same");
        for (name, value) in self.credentials(role) {
            request = request.header(name, value);
        }
        if row.path.starts_with("/api/v1/uploads") {
            let offset = if row.method == "POST" { "upload-length" } else { "upload-offset" };
            let value = if row.method == "POST" { BYTES.len() } else { 0 };
            request = request.header("tus-resumable", "1.0.0").header(offset, value);
            request = request.header("content-type", "application/offset+octet-stream");
        }
        if row.path.ends_with("/certs-secure") {
            request = request.header("x-build-id", &things["build"]);
        }
        if row.body.starts_with("form:") {
            request = request.header("content-type", format!("multipart/form-data; boundary={BOUNDARY}"));
        }
        let body = match row.body {
            "raw:" => BYTES.to_vec(),
            "form:build" => build_form(),
            "form:result" => result_form(&things),
            json => fill(json, &things).into_bytes(),
        };
        self.rig.server.send(request, body).await
    }

    /// The headers that a role comes with.
    fn credentials(&self, role: Role) -> Vec<(&'static str, String)> {
        let (ours, theirs) = (&self.ours, &self.theirs);
        let key = |role| (API_KEY_HEADER, self.key(role).to_owned());
        let bearer = |token: &String| ("authorization", format!("Bearer {token}"));
        match role {
            Role::Nobody | Role::Password => vec![],
            Role::Stranger
            | Role::Read
            | Role::Submit
            | Role::Worker
            | Role::NamespaceAdmin
            | Role::Admin
            | Role::Foreign => vec![key(role)],
            Role::BuilderToken => vec![("x-worker-token", ours["builder_token"].clone())],
            Role::BuilderName => vec![key(Role::Worker), ("x-worker-id", ours["builder"].clone())],
            Role::Machine => vec![("x-vm-token", ours["vm_token"].clone())],
            Role::Lease => vec![key(Role::Worker), ("x-lease", ours["native_lease"].clone())],
            Role::ReaderWithLease => vec![
                key(Role::Read),
                ("x-lease", ours["native_lease"].clone()),
                ("x-worker-id", ours["builder"].clone()),
            ],
            Role::BuildToken => vec![("x-build-token", ours["build_token"].clone())],
            Role::Runner => vec![bearer(&ours["runner_token"])],
            Role::Join => vec![bearer(&ours["join_token"])],
            Role::ForeignLease => vec![key(Role::Foreign), ("x-lease", theirs["native_lease"].clone())],
            Role::ForeignHolder => vec![key(Role::Foreign), ("x-lease", ours["native_lease"].clone())],
            Role::ForeignBuilderToken => vec![("x-worker-token", theirs["builder_token"].clone())],
            Role::ForeignBuilderName => vec![key(Role::Foreign), ("x-worker-id", theirs["builder"].clone())],
            Role::ForeignMachine => vec![("x-vm-token", theirs["vm_token"].clone())],
            Role::ForeignBuildToken => vec![("x-build-token", theirs["build_token"].clone())],
            Role::ForeignRunner => vec![bearer(&theirs["runner_token"])],
            Role::ForeignJoin => vec![bearer(&theirs["join_token"])],
            Role::ForeignPassword => vec![],
        }
    }
}

fn result_form(things: &Things) -> Vec<u8> {
    let parts: [Part<'_>; 4] = [
        ("build_id", None, things["build"].as_bytes()),
        ("worker_id", None, things["builder"].as_bytes()),
        ("success", None, b"true"),
        ("result", Some("app.ipa"), BYTES),
    ];
    form(&parts)
}

/// An answer whose names of things are left out, so that those about different ones can be compared.
pub fn without_names(answer: &Answer, things: &Things) -> (u16, String) {
    let said = String::from_utf8_lossy(&answer.body).into_owned();
    let names = NAMES.iter().flat_map(|(name, made_up)| [things[name].as_str(), made_up]);
    (answer.status, names.fold(said, |said, name| said.replace(name, "ID")))
}
