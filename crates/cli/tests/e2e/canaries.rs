//! A canary in every place that takes a secret, looked for in every place where none may be: the log, metrics, answers and
//! errors, what commands print, the files of the database and of the storage.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use baton_testkit::Process;
use serde_json::{Value, json};

use crate::on_both_stores;
use crate::site::{API_KEY, BATON, Leases, Store, serve_with};
use crate::wire::{Answer, Request};

const PATIENCE: Duration = Duration::from_secs(30);
/// Not a secret: whoever looks for canaries has to find this.
const FINDABLE: &str = "a-project-that-is-no-secret";
const METRICS_KEY: &str = "canary-metrics-key-83651";
const GITHUB_TOKEN: &str = "canary-github-token-27190";
const DATABASE_PASSWORD: &str = "canary-database-password-5512";
const WRONG_KEY: &str = "canary-key-that-nobody-knows-9";
const P12: &str = "canary-p12-bytes-60217";
const P12_PASSWORD: &str = "canary-p12-password-11873";
const PROFILE: &str = "canary-profile-bytes-44021";
const INPUT: &str = "canary-sealed-input-73002";
const OUTPUT: &str = "canary-sealed-output-90118";

/// What is asked of the server, and every secret that it has given out.
struct Cage {
    server: SocketAddr,
    canaries: Vec<(&'static str, String)>,
    /// Everything that was answered where no secret belongs.
    heard: Vec<(String, Vec<u8>)>,
}

impl Cage {
    async fn ask(&self, request: Request) -> Answer {
        let name = request.name().to_owned();
        request.send(self.server).await.unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Asks for something that holds secrets by its nature, and keeps these.
    async fn secret(&mut self, request: Request, names: &[&'static str]) -> Value {
        let answer = self.ask(request).await;
        assert!(answer.status < 300, "{answer:?}");
        let answer = answer.json();
        for name in names {
            let found = answer[*name].as_str().or_else(|| answer["job"][*name].as_str());
            self.canaries.push((name, found.unwrap_or_else(|| panic!("{name}: {answer}")).to_owned()));
        }
        answer
    }

    /// Asks for something that holds none.
    async fn listen(&mut self, request: Request) -> u16 {
        let name = request.name().to_owned();
        let answer = self.ask(request).await;
        self.heard.push((name, answer.body.clone()));
        answer.status
    }

    /// Fails when one of the canaries is in there.
    fn assert_silent(&self, place: &str, bytes: &[u8]) {
        for (name, canary) in &self.canaries {
            for form in [canary.clone(), hexadecimal(canary), base64(canary)] {
                assert!(!contains(bytes, &form), "the {name} ({form}) is in {place}");
            }
        }
    }
}

fn contains(bytes: &[u8], needle: &str) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle.as_bytes())
}

fn hexadecimal(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// Without the end, which depends on what follows.
fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let number = |group: &[u8]| u32::from(group[0]) << 16 | u32::from(group[1]) << 8 | u32::from(group[2]);
    let digits = |number: u32| [18, 12, 6, 0].map(|shift| char::from(DIGITS[(number >> shift) as usize & 63]));
    text.as_bytes().chunks_exact(3).flat_map(|group| digits(number(group))).collect()
}

/// A zip of these files, stored as they are.
fn zip(files: &[(&str, &str)]) -> Vec<u8> {
    let (mut body, mut directory) = (Vec::new(), Vec::new());
    for (name, text) in files {
        let (offset, sum) = (body.len() as u32, crc32(text.as_bytes()));
        let size = (text.len() as u32).to_le_bytes();
        let common = [&[20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0x5a][..], &sum.to_le_bytes(), &size, &size].concat();
        let names = [(name.len() as u16).to_le_bytes(), [0; 2]].concat();
        body.extend([&b"PK\x03\x04"[..], &common, &names, name.as_bytes(), text.as_bytes()].concat());
        let entry = [&b"PK\x01\x02\x14\0"[..], &common, &names, &[0; 10], &offset.to_le_bytes(), name.as_bytes()];
        directory.extend(entry.concat());
    }
    let (count, at) = ((files.len() as u16).to_le_bytes(), (body.len() as u32).to_le_bytes());
    let size = (directory.len() as u32).to_le_bytes();
    [&body[..], &directory, b"PK\x05\x06\0\0\0\0", &count, &count, &size, &at, &[0; 2]].concat()
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |sum: u32| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
    !bytes.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), |sum, _| step(sum)))
}

/// A build with certificates, which its builder and its machine read.
async fn build_with_certificates(cage: &mut Cage) -> String {
    let certs = zip(&[
        ("certs/dist.p12", P12),
        ("certs/password.txt", P12_PASSWORD),
        ("profiles/app.mobileprovision", PROFILE),
    ]);
    let form = Request::post("/api/builds").form(&[
        ("platform", None, b"ios"),
        ("project", None, FINDABLE.as_bytes()),
        ("certs", Some("certs.zip"), &certs),
        ("source", Some("app.zip"), b"PK\x03\x04 a source"),
    ]);
    let id = cage.secret(form, &["access_token"]).await["id"].as_str().expect("an id").to_owned();
    let registration = json!({"name": "mac", "capabilities": {"platforms": ["ios"]}});
    let register = Request::post("/api/workers/register").json(&registration);
    let token = cage.secret(register, &["access_token"]).await["access_token"].as_str().expect("a token").to_owned();
    let poll = Request::get("/api/workers/poll").header("x-worker-token", token);
    let polled = cage.secret(poll, &["access_token", "otp"]).await;
    let password = json!({"otp": polled["job"]["otp"]});
    let authenticate = Request::anonymous("POST", &format!("/api/builds/{id}/authenticate")).json(&password);
    let token = cage.secret(authenticate, &["vm_token"]).await["vm_token"].as_str().expect("a token").to_owned();
    let certs = Request::anonymous("GET", &format!("/api/builds/{id}/certs-secure"))
        .header("x-vm-token", &token)
        .header("x-build-id", &id);
    let parts = cage.secret(certs, &["keychainPassword"]).await;
    assert_eq!(parts["p12Password"], P12_PASSWORD);
    let line = json!({"level": "info", "message": "compiling"});
    let log = Request::anonymous("POST", &format!("/api/builds/{id}/logs")).header("x-vm-token", &token).json(&line);
    assert_eq!(cage.listen(log).await, 200);
    id
}

/// A run of a namespace that seals its payloads, held and completed.
async fn sealed_run(cage: &mut Cage) {
    let namespace = json!({"name": "vault", "seal_payloads": true});
    assert_eq!(cage.listen(Request::post("/api/v1/namespaces").json(&namespace)).await, 201);
    let run = json!({"namespace": "vault", "queue": "work", "type": "job", "input": INPUT});
    assert_eq!(cage.listen(Request::post("/api/v1/runs").json(&run)).await, 201);
    let worker = json!({"namespace": "vault", "queues": ["work"], "types": ["job"]});
    let worker = cage.ask(Request::post("/api/v1/workers").json(&worker)).await.json();
    let claim = format!("/api/v1/workers/{}/claim", worker["worker_id"].as_str().expect("an id"));
    let claimed = cage.ask(Request::post(&claim).json(&json!({"wait_ms": 5_000}))).await.json()["runs"][0].clone();
    assert_eq!(claimed["input"], INPUT);
    let lease = claimed["lease"].as_str().expect("a lease");
    cage.canaries.push(("lease", lease.to_owned()));
    let complete = format!("/api/v1/runs/{}/complete", claimed["run_id"].as_str().expect("an id"));
    for lease in ["a lease that is made up", lease] {
        let report = json!({"lease": lease, "output": OUTPUT});
        cage.listen(Request::post(&complete).json(&report)).await;
    }
}

/// What goes wrong must not say what it went wrong with.
async fn mistakes(cage: &mut Cage) {
    let wrong = [
        Request::anonymous("GET", "/api/v1/runs").header("x-api-key", WRONG_KEY),
        Request::anonymous("GET", "/metrics").header("authorization", format!("Bearer {WRONG_KEY}")),
        Request::anonymous("GET", "/api/workers/poll").header("x-worker-token", WRONG_KEY),
        Request::anonymous("GET", &format!("/api/v1/runs?key={WRONG_KEY}")).header("x-api-key", WRONG_KEY),
        Request::post("/api/v1/keys").json(&json!({"name": "x", "scopes": ["none"]})),
        Request::post("/api/v1/runs").body(b"{\"queue\": 7"),
    ];
    for request in wrong {
        assert!(cage.listen(request).await >= 400);
    }
}

async fn commands(data: &Path, url: &str) -> Vec<(String, Vec<u8>)> {
    let mut printed = Vec::new();
    let environment = [("BATON_DATA", data.to_str().expect("text")), ("BATON_URL", url), ("BATON_API_KEY", API_KEY)];
    for command in
        [&["doctor"][..], &["settings", "list"], &["key", "list"], &["audit", "export"], &["secret", "status"]]
    {
        let mut process = Process::spawn(BATON, command, environment);
        process.wait(PATIENCE).await;
        printed.push((command.join(" "), process.output().into_bytes()));
    }
    printed
}

async fn no_secret_is_where_it_does_not_belong(store: Store) {
    let database = match store {
        Store::Sqlite => None,
        Store::Postgres => Some(baton_testkit::database().await),
    };
    let home = tempfile::tempdir().unwrap();
    let master_key = baton_core::token::master_key([0xc7; 32]);
    let url = database.as_ref().map(|database| database.url().replacen('@', &format!(":{DATABASE_PASSWORD}@"), 1));
    let settings = [
        ("BATON_LOG", "debug,baton_server=trace,baton_store=trace"),
        ("BATON_MASTER_KEY", master_key.as_str()),
        ("BATON_METRICS_KEY", METRICS_KEY),
        ("BATON_GITHUB_TOKEN", GITHUB_TOKEN),
    ];
    let mut server = serve_with(home.path(), url.as_deref(), Leases::LONG, &settings).await;
    let own = [
        ("API key of the settings", API_KEY),
        ("metrics key", METRICS_KEY),
        ("token of GitHub", GITHUB_TOKEN),
        ("password of the database", DATABASE_PASSWORD),
        ("wrong key", WRONG_KEY),
        ("certificate", P12),
        ("password of the certificate", P12_PASSWORD),
        ("profile", PROFILE),
        ("sealed input", INPUT),
        ("sealed output", OUTPUT),
    ];
    let address = server.url().trim_start_matches("http://").parse().expect("an address");
    let mut cage = Cage { server: address, canaries: vec![("master key", master_key.clone())], heard: Vec::new() };
    cage.canaries.extend(own.map(|(name, canary)| (name, canary.to_owned())));

    let key = json!({"name": "ci", "scopes": ["submit"]});
    let key = cage.secret(Request::post("/api/v1/keys").json(&key), &["key"]).await;
    let rotate = format!("/api/v1/keys/{}/rotate", key["id"].as_str().expect("an id"));
    cage.secret(Request::post(&rotate).json(&json!({})), &["key"]).await;
    let build = build_with_certificates(&mut cage).await;
    sealed_run(&mut cage).await;
    mistakes(&mut cage).await;
    assert_eq!(cage.listen(Request::post("/api/v1/secrets/rotate").json(&json!({}))).await, 200);
    for path in [
        "/metrics",
        "/health",
        "/api/stats",
        "/api/v1/audit",
        "/api/v1/keys",
        "/api/v1/settings",
        "/api/v1/secrets",
        "/api/v1/namespaces",
        "/api/v1/workers",
        "/api/v1/queues",
        "/api/builds",
        &format!("/api/builds/{build}"),
        &format!("/api/builds/{build}/status"),
        &format!("/api/builds/{build}/logs?limit=100"),
        &format!("/api/v1/runs/{build}/history"),
        &format!("/api/v1/runs/{build}/explain"),
    ] {
        assert_eq!(cage.listen(Request::get(path)).await, 200, "{path}");
    }
    cage.heard.extend(commands(&home.path().join("data"), &server.url()).await);
    // What is being written is written when the server has stopped.
    server.stop().await;
    for (place, bytes) in &cage.heard {
        cage.assert_silent(place, bytes);
    }
    let log = server.process().output();
    assert!(log.contains("listening"), "the log is there");
    cage.assert_silent("the log", log.as_bytes());

    let mut found = false;
    if let Some(database) = &database {
        let rows = database.dump().await;
        found |= contains(rows.as_bytes(), FINDABLE);
        cage.assert_silent("the database", rows.as_bytes());
    }
    let mut folders = vec![home.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
                continue;
            }
            let bytes = std::fs::read(entry.path()).unwrap();
            found |= contains(&bytes, FINDABLE);
            cage.assert_silent(&entry.path().display().to_string(), &bytes);
        }
    }
    assert!(found, "this test would find nothing anywhere");
}

on_both_stores!(no_secret_is_where_it_does_not_belong);
