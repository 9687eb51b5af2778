//! One server with two tenants that have one of everything each: ours in the namespace `default`,
//! and a foreign one in `team`.

use std::collections::BTreeMap;
use std::sync::Mutex;

use baton::proto::{API_KEY_HEADER, CreateKey};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::roles::Role;
use crate::builds::files::certs;
use crate::builds::rig::{Part, SOURCE, form, text};
use crate::harness::{KEY, On, eventually};
use crate::pools::rig::Rig;

/// Where the foreign tenant lives.
pub const TEAM: &str = "team";
/// Files of all kinds.
pub const BYTES: &[u8] = b"what is in a file";
/// A key that nobody made.
const STRANGE_KEY: &str = "a-key-that-nobody-made";

/// Identifiers, names and credentials by what they are of.
pub type Things = BTreeMap<&'static str, String>;

/// A tenant: where it is, and the keys that it makes things with.
struct Tenant<'a> {
    namespace: &'a str,
    submitter: &'a str,
    worker: &'a str,
}

/// The parts that a call may end, and that are made again before the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Renewed {
    Run,
    Build,
    GitBuild,
    Pool,
    Schedule,
    Key,
    Upload,
    Webhook,
}

pub struct World {
    pub rig: Rig,
    keys: BTreeMap<Role, String>,
    pub ours: Things,
    pub theirs: Things,
    made: u32,
    build_tokens: Mutex<BTreeMap<String, String>>,
}

impl World {
    pub async fn start(on: On) -> World {
        let rig = Rig::with(on, |settings| {
            settings.refusals_per_second = 1_000_000;
            settings.build_polls_per_second = 0.0;
            settings.webhook_allow = "127.0.0.1".into();
        })
        .await;
        let mut keys = BTreeMap::from([(Role::Admin, KEY.to_owned()), (Role::Stranger, STRANGE_KEY.to_owned())]);
        for (role, scopes, namespace) in [
            (Role::Read, &["read"][..], "default"),
            (Role::Submit, &["submit"], "default"),
            (Role::Worker, &["worker"], "default"),
            (Role::NamespaceAdmin, &["admin"], "default"),
            (Role::Foreign, &["admin", "submit", "worker", "read"], TEAM),
        ] {
            let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
            let wanted =
                CreateKey { name: format!("{role:?}"), scopes, namespace: Some(namespace.into()), expires_in_ms: None };
            keys.insert(role, rig.server.client.create_key(&wanted).await.unwrap().key);
        }
        let mut world =
            World { rig, keys, ours: Things::new(), theirs: Things::new(), made: 0, build_tokens: Mutex::default() };
        world.ours = world.things(&world.us(), Role::Worker).await;
        world.theirs = world.things(&world.them(), Role::Foreign).await;
        world
    }

    pub fn key(&self, role: Role) -> &str {
        &self.keys[&role]
    }

    fn us(&self) -> Tenant<'_> {
        Tenant { namespace: "default", submitter: KEY, worker: self.key(Role::Worker) }
    }

    fn them(&self) -> Tenant<'_> {
        let key = self.key(Role::Foreign);
        Tenant { namespace: TEAM, submitter: key, worker: key }
    }

    /// One of everything.
    async fn things(&self, tenant: &Tenant<'_>, owner: Role) -> Things {
        let mut all = Things::from([("queue", "orders".into()), ("namespace", tenant.namespace.into())]);
        all.extend(self.run(tenant).await);
        all.extend(self.build(tenant).await);
        all.extend(self.git_build(tenant, self.key(owner)).await);
        all.extend(self.pool(tenant, "first").await);
        all.extend(self.schedule(tenant, "first").await);
        all.extend(self.bulk(tenant).await);
        all.extend(self.spare_key(tenant).await);
        all.extend(self.webhook(tenant, "first").await);
        all.extend(self.upload(self.key(owner)).await);
        let report = json!({"worker_id": all["builder"], "checks": []});
        self.sent("POST", "/api/diagnostics/report", tenant.worker, report).await;
        let sum = Sha256::digest(BYTES).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        if tenant.namespace != TEAM {
            let request = self.rig.server.request("PUT", &format!("/api/v1/cache/{sum}"));
            let kept = self.rig.server.send(request.header(API_KEY_HEADER, tenant.worker), BYTES).await;
            assert_eq!(kept.status, 201, "{kept:?}");
        }
        all.insert("sum", sum);
        all
    }

    /// Makes a part of ours again, for this role.
    pub async fn renew(&mut self, part: Renewed, role: Role) {
        self.made += 1;
        let (us, name) = (self.us(), format!("again{}", self.made));
        let made = match part {
            Renewed::Run => self.run(&us).await,
            Renewed::Build => self.build(&us).await,
            Renewed::GitBuild => self.git_build(&us, self.key(role)).await,
            Renewed::Pool => self.pool(&us, &name).await,
            Renewed::Schedule => self.schedule(&us, &name).await,
            Renewed::Key => self.spare_key(&us).await,
            Renewed::Upload => self.upload(self.key(role)).await,
            Renewed::Webhook => self.webhook(&us, &name).await,
        };
        self.ours.extend(made);
    }

    /// Sends JSON with a key; the answer, which must be a good one.
    async fn sent(&self, method: &str, path: &str, key: &str, body: Value) -> Value {
        let request = self.rig.server.request(method, path).header(API_KEY_HEADER, key);
        let answer = self.rig.server.send(request, body.to_string()).await;
        assert!(answer.status < 300, "{method} {path}: {answer:?}");
        answer.json()
    }

    // ---- the parts

    /// A worker and a run that it holds.
    async fn run(&self, tenant: &Tenant<'_>) -> Things {
        let run = json!({"namespace": tenant.namespace, "queue": "orders", "type": "order"});
        self.sent("POST", "/api/v1/runs", tenant.submitter, run).await;
        let worker =
            json!({"namespace": tenant.namespace, "queues": ["orders"], "types": ["order"], "max_concurrent": 2});
        let (worker, claimed) = self.claimed(tenant, worker).await;
        Things::from([("worker", worker), ("run", text(&claimed["run_id"])), ("lease", text(&claimed["lease"]))])
    }

    /// A new worker, and what it has claimed.
    async fn claimed(&self, tenant: &Tenant<'_>, worker: Value) -> (String, Value) {
        let worker = text(&self.sent("POST", "/api/v1/workers", tenant.worker, worker).await["worker_id"]);
        let claim = json!({"start": true, "claim_no": 1});
        let claimed = self.sent("POST", &format!("/api/v1/workers/{worker}/claim"), tenant.worker, claim).await;
        (worker, claimed["runs"][0].clone())
    }

    /// Submits a build, and keeps its token.
    async fn submit_build(&self, tenant: &Tenant<'_>) {
        let archive = certs();
        let parts: [Part<'_>; 3] =
            [("platform", None, b"ios"), ("source", Some("a.zip"), SOURCE), ("certs", Some("c.zip"), &archive)];
        let headers = [(API_KEY_HEADER, tenant.submitter)];
        let submitted = self.rig.server.post_bare_form("/api/builds", &headers, &parts).await;
        assert_eq!(submitted.status, 201, "{submitted:?}");
        let (id, token) = (text(&submitted.json()["id"]), text(&submitted.json()["access_token"]));
        self.build_tokens.lock().unwrap().insert(id, token);
    }

    /// A new builder with a build whose token is known.
    async fn builder(&self, tenant: &Tenant<'_>) -> Things {
        self.submit_build(tenant).await;
        // What somebody else has submitted or given back may come first, and is left to whom it came to.
        loop {
            let wanted = json!({"name": "a builder", "capabilities": {"platforms": ["ios"]}});
            let builder = self.sent("POST", "/api/workers/register", tenant.worker, wanted).await;
            let token = text(&builder["access_token"]);
            let polled = self.rig.server.get_with("/api/workers/poll", &[("x-worker-token", &token)]).await.json();
            let build = text(&polled["job"]["id"]);
            if let Some(build_token) = self.build_tokens.lock().unwrap().get(&build).cloned() {
                return Things::from([
                    ("builder", text(&builder["id"])),
                    ("builder_token", text(&polled["access_token"])),
                    ("build", build),
                    ("build_token", build_token),
                    ("otp", text(&polled["job"]["otp"])),
                ]);
            }
        }
    }

    /// A build that a builder has, with a machine that knows its password; one whose password was not
    /// used; and one that a worker of the native API has.
    async fn build(&self, tenant: &Tenant<'_>) -> Things {
        let mut all = self.builder(tenant).await;
        let path = format!("/api/builds/{}/authenticate", all["build"]);
        let admitted = self.rig.server.post_with(&path, &[], json!({"otp": all["otp"]})).await.json();
        all.insert("vm_token", text(&admitted["vm_token"]));
        let mut sealed = self.builder(tenant).await;
        all.insert("otp", sealed.remove("otp").unwrap());
        all.insert("sealed", sealed.remove("build").unwrap());
        self.submit_build(tenant).await;
        let worker = json!({"namespace": tenant.namespace, "queues": ["builds"], "types": ["ios"]});
        let (_, claimed) = self.claimed(tenant, worker).await;
        all.insert("native", text(&claimed["run_id"]));
        all.insert("native_lease", text(&claimed["lease"]));
        all
    }

    /// A build from a repository that this key has.
    async fn git_build(&self, tenant: &Tenant<'_>, holder: &str) -> Things {
        let wanted = json!({
            "project_slug": "shop", "version": "1", "source_url": "https://git.example/shop.git", "ref": "main",
            "docker_image": "rust:1"
        });
        self.sent("POST", "/api/v1/builds", tenant.submitter, wanted).await;
        let job = self.sent("GET", "/api/v1/builds/pending", holder, Value::Null).await;
        Things::from([("git", text(&job["id"]))])
    }

    /// A pool with one machine, whose agent is to register for a claim.
    async fn pool(&self, tenant: &Tenant<'_>, name: &str) -> Things {
        let Tenant { namespace, submitter, .. } = tenant;
        let pool = format!("{namespace}-{name}");
        let wanted = json!({"namespace": namespace, "name": pool, "provider": "fake", "min_idle": 1, "max_size": 1});
        self.sent("POST", "/api/v1/pools", submitter, wanted).await;
        let order = || self.rig.fake.asked().into_iter().find(|order| order.pool.name == pool);
        let made = || {
            let order = order()?;
            self.rig.fake.machines().into_iter().find(|(_, token)| *token == order.token)
        };
        eventually("a machine is there", async || made().is_some()).await;
        let (machine, order) = made().unwrap();
        let join_token = self.rig.join_token(&order);
        let joined = self.rig.join_with(&join_token, &machine, 1).await.json();
        let (runner, token) = (text(&joined["runner_id"]), text(&joined["token"]));
        let mut agent = crate::pools::rig::Agent {
            id: runner.clone(),
            token: token.clone(),
            machine: machine.clone(),
            order: joined["order"].clone(),
        };
        agent.says(&self.rig, "UD_OK", None).await;
        let (path, claim) = (format!("/api/v1/pools/{pool}/claims?namespace={namespace}"), format!("job-of-{pool}"));
        self.sent("POST", &path, submitter, json!({"run_id": claim, "count": 1})).await;
        agent.hears(&self.rig, "register").await;
        Things::from([
            ("pool", pool),
            ("claim", claim),
            ("machine", machine),
            ("join_token", join_token),
            ("runner", runner),
            ("runner_token", token),
        ])
    }

    /// A bulk operation that finds nothing.
    async fn bulk(&self, tenant: &Tenant<'_>) -> Things {
        let filter = json!({"namespace": tenant.namespace, "key": "nobody's"});
        let wanted = json!({"action": "cancel", "filter": filter});
        let made = self.sent("POST", "/api/v1/bulk", tenant.submitter, wanted).await;
        Things::from([("bulk", text(&made["id"]))])
    }

    async fn schedule(&self, tenant: &Tenant<'_>, name: &str) -> Things {
        let id = format!("{}-{name}", tenant.namespace);
        let run = json!({"queue": "reports", "type": "report"});
        let wanted = json!({"namespace": tenant.namespace, "id": id, "cron": "@daily", "run": run});
        self.sent("POST", "/api/v1/schedules", tenant.submitter, wanted).await;
        Things::from([("schedule", id)])
    }

    async fn spare_key(&self, tenant: &Tenant<'_>) -> Things {
        let wanted = json!({"name": "spare", "scopes": ["read"], "namespace": tenant.namespace});
        let made = self.sent("POST", "/api/v1/keys", tenant.submitter, wanted).await;
        Things::from([("key", text(&made["id"]))])
    }

    /// A webhook with one delivery that has failed: nobody listens there.
    async fn webhook(&self, tenant: &Tenant<'_>, name: &str) -> Things {
        let name = format!("{}-{name}", tenant.namespace);
        let filter = json!({"run": "none"});
        let wanted =
            json!({"namespace": tenant.namespace, "name": name, "url": "http://127.0.0.1:9/", "filter": filter});
        let webhook = text(&self.sent("POST", "/api/v1/webhooks", tenant.submitter, wanted).await["id"]);
        // It is told that it has missed something.
        for verb in ["pause", "resume"] {
            let path = format!("/api/v1/webhooks/{webhook}/{verb}");
            self.sent("POST", &path, tenant.submitter, Value::Null).await;
        }
        let path = format!("/api/v1/webhooks/{webhook}/deliveries");
        let first = async || self.sent("GET", &path, tenant.submitter, Value::Null).await["deliveries"][0].clone();
        eventually("it was tried", async || !first().await["attempts"].as_array().unwrap().is_empty()).await;
        Things::from([("delivery", text(&first().await["id"])), ("webhook", webhook)])
    }

    /// An upload of this key that nothing has come of.
    async fn upload(&self, key: &str) -> Things {
        let request = self.rig.server.request("POST", "/api/v1/uploads").header(API_KEY_HEADER, key);
        let request = request.header("tus-resumable", "1.0.0").header("upload-length", BYTES.len());
        let begun = self.rig.server.send(request, "").await;
        assert_eq!(begun.status, 201, "{begun:?}");
        Things::from([("upload", begun.header("location").rsplit('/').next().unwrap().to_owned())])
    }

    // ---- what is there

    /// Everything of ours that a call could change, as the administrator sees it.
    pub async fn snapshot(&self) -> BTreeMap<String, Value> {
        let ours = &self.ours;
        let of = |path: &str| super::call::fill(path, ours);
        let mut all = BTreeMap::new();
        for path in [
            "/api/v1/runs?namespace=default&limit=1000",
            "/api/v1/runs/<run>",
            "/api/v1/runs/<run>/history",
            "/api/v1/workers?namespace=default&limit=1000",
            "/api/v1/workers/<worker>",
            "/api/v1/queues?namespace=default",
            "/api/v1/schedules?namespace=default",
            "/api/v1/schedules/<schedule>/runs",
            "/api/v1/pools?namespace=default",
            "/api/v1/pools/<pool>/claims",
            "/api/v1/pools/<pool>/claims/<claim>",
            "/api/v1/pools/<pool>/runners/<runner>",
            "/api/v1/webhooks?namespace=default",
            "/api/v1/webhooks/<webhook>/deliveries",
            "/api/v1/keys",
            "/api/v1/namespaces",
            "/api/v1/settings",
            "/api/builds/<build>",
            "/api/builds/<build>/logs",
            "/api/builds/<build>/telemetry",
            "/api/builds/<native>",
            "/api/builds/<native>/logs",
            "/api/builds/<git>",
            "/api/workers/<builder>/stats",
            "/api/diagnostics/<builder>",
        ] {
            let answer = self.rig.server.call("GET", &of(path), "").await;
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
            all.insert(path.to_owned(), answer.json());
        }
        // The administrator of everything sees the builds of all namespaces.
        let request = self.rig.server.request("GET", "/api/builds?limit=1000");
        let builds = request.header(API_KEY_HEADER, self.key(Role::NamespaceAdmin));
        all.insert("the builds".into(), self.rig.server.send(builds, "").await.json());
        let keys = all.get_mut("/api/v1/keys").and_then(|keys| keys["keys"].as_array_mut()).unwrap();
        keys.retain(|key| key["namespace"] != TEAM);
        // Whoever is refused has used a key.
        keys.iter_mut().for_each(|key| key["used_at"] = Value::Null);
        let request = self.rig.server.request("HEAD", &of("/api/v1/uploads/<upload>"));
        let request = request.header(API_KEY_HEADER, self.key(Role::Worker)).header("tus-resumable", "1.0.0");
        let upload = self.rig.server.send(request, "").await;
        all.insert("the upload".into(), upload.header("upload-offset").into());
        all
    }
}

/// The form of a new build.
pub fn build_form() -> Vec<u8> {
    form(&[("platform", None, b"android"), ("source", Some("app.zip"), SOURCE)])
}
