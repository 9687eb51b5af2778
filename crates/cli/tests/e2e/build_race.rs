//! 200 builders race for 1,000 builds, in the two protocols that exist, while one answer in five is lost after the server has acted.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use baton::Client;
use baton_testkit::{Database, Proxy};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::balancer::address;
use crate::on_both_stores;
use crate::site::{Leases, Store, client, serve_with};
use crate::stored::{self, COLLECTING, collected, files_of_builds};
use crate::verdict::each_completed_once;
use crate::wait::{PATIENCE, eventually};
use crate::wire::{Answer, Request, sha256};

/// Builders with names and tokens that change with every poll, and builds with a source for them.
const BUILDERS: usize = 160;
const BUILDS: usize = 800;
/// Builders that have nothing but a key, and builds from repositories for them.
const GIT_BUILDERS: usize = 40;
const GIT_BUILDS: usize = 200;
/// How long those wait when there is nothing for them.
const GIT_PAUSE: Duration = Duration::from_millis(500);
const SUBMITTERS: usize = 20;
const LOSS: f64 = 0.2;
const SEED: u64 = 20_261_115;

const SETTINGS: [(&str, &str); 6] = [
    ("BATON_STORAGE_FREE_BYTES_MIN", "0"),
    ("BATON_BUILD_POLL_AFTER_MS", "1000"),
    // This is about losses. Who polls as fast as it can is slowed down elsewhere.
    ("BATON_BUILD_POLLS_PER_SECOND", "0"),
    ("BATON_BUILD_BACKLOG_MAX", "2000"),
    // A builder without a name cannot ask again for a build whose answer it did not get: the build comes back by itself. That is bad
    // luck and not the build's fault, however often it happens.
    ("BATON_BUILD_GIT_LEASE_MS", "3000"),
    ("BATON_BUILD_LOSSES_MAX", "100"),
];
/// The way to the server, as every client has it: what was not answered is sent again.
struct Network {
    proxy: Proxy,
    repeats: AtomicU64,
}

impl Network {
    async fn ask(&self, request: &Request) -> Answer {
        let until = Instant::now() + PATIENCE;
        loop {
            match request.send(self.proxy.address()).await {
                Ok(answer) => return answer,
                Err(error) => {
                    assert!(Instant::now() < until, "no answer to {}: {error}", request.name());
                    self.repeats.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}

/// What a builder has to show at the end.
struct Builder {
    name: String,
    token: String,
    /// Builds that the server said it had completed, and with what.
    built: Vec<(String, Vec<u8>)>,
}

/// Waits as long as the server wants, or until there is nothing more to do.
async fn pause(over: &mut watch::Receiver<bool>, length: Duration) {
    let _ = tokio::time::timeout(length, over.wait_for(|over| *over)).await;
}

async fn build_with_a_token(network: Arc<Network>, number: usize, mut over: watch::Receiver<bool>) -> Builder {
    let name = format!("builder-{number}");
    let capabilities = json!({"platforms": ["ios"], "maxConcurrentBuilds": 1});
    let registration = json!({"id": name, "name": name, "capabilities": capabilities});
    let registered = network.ask(&Request::post("/api/workers/register").json(&registration)).await;
    assert!(matches!(registered.status, 200 | 201), "{registered:?}");
    let mut builder = Builder { token: registered.text("access_token"), name, built: Vec::new() };
    while !*over.borrow() {
        let polled = builder.poll(&network).await;
        match &polled["job"] {
            Value::Null => pause(&mut over, Duration::from_millis(polled["poll_after_ms"].as_u64().unwrap())).await,
            job => builder.build(&network, job).await,
        }
    }
    builder
}

impl Builder {
    fn with_token(&self, request: Request) -> Request {
        request.header("x-worker-token", &self.token)
    }

    async fn poll(&mut self, network: &Network) -> Value {
        let answer = network.ask(&self.with_token(Request::get("/api/workers/poll"))).await;
        // Whoever is locked out gets 401 here, and would have to register again.
        assert_eq!(answer.status, 200, "{} was locked out: {answer:?}", self.name);
        self.token = answer.text("access_token");
        answer.json()
    }

    async fn build(&mut self, network: &Network, job: &Value) {
        let id = job["id"].as_str().unwrap();
        let source = network.ask(&self.with_token(Request::get(job["source_url"].as_str().unwrap()))).await;
        assert_eq!(source.status, 200, "{source:?}");
        let line = json!({"level": "info", "message": "building"});
        let logged = self.with_token(Request::post(&format!("/api/builds/{id}/logs")).json(&line));
        assert_eq!(network.ask(&logged).await.status, 200);
        let result = result_of(&source.body, &self.name);
        let upload = self.with_token(Request::post("/api/workers/upload")).form(&[
            ("build_id", None, id.as_bytes()),
            ("worker_id", None, self.name.as_bytes()),
            ("success", None, b"true"),
            ("result", Some("app.ipa"), &result),
        ]);
        let answer = network.ask(&upload).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        self.built.push((id.to_owned(), result));
    }
}

fn source_of(number: usize) -> Vec<u8> {
    format!("PK\x03\x04 the source of build {number}: {}", "x".repeat(300)).into_bytes()
}

/// No two builders make the same of a source.
fn result_of(source: &[u8], builder: &str) -> Vec<u8> {
    format!("{builder} built {}", sha256(source)).into_bytes()
}

/// Returns how many builds the server said this builder has completed.
async fn build_with_a_key(network: Arc<Network>, mut over: watch::Receiver<bool>) -> usize {
    let mut completed = 0;
    while !*over.borrow() {
        let polled = network.ask(&Request::get("/api/v1/builds/pending")).await;
        if polled.status == 204 {
            pause(&mut over, GIT_PAUSE).await;
            continue;
        }
        assert_eq!(polled.status, 200, "{polled:?}");
        let id = polled.text("id");
        let result = json!({"job_id": id, "status": "success", "duration": 0.1});
        let answer = network.ask(&Request::post(&format!("/api/v1/builds/{id}/result")).json(&result)).await;
        match answer.status {
            200 => completed += 1,
            // The first answer was lost, or it took so long that another one had it.
            409 => {}
            _ => panic!("{answer:?}"),
        }
    }
    completed
}

async fn submit(network: Arc<Network>, number: usize) -> (usize, String) {
    let key = format!("race-{number}");
    let request = match number < BUILDS {
        true => Request::post("/api/builds")
            .header("idempotency-key", key)
            .form(&[("platform", None, b"ios"), ("source", Some("app.zip"), &source_of(number))]),
        false => Request::post("/api/v1/builds").header("idempotency-key", key).json(&json!({
            "project_slug": format!("project-{}", number % 7), "version": "1.0", "ref": "main",
            "source_url": "https://git.example/project.git", "docker_image": "rust:1",
        })),
    };
    let answer = network.ask(&request).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    (number, answer.text("id"))
}

async fn submit_all(network: &Arc<Network>) -> HashMap<usize, String> {
    let mut submitters = JoinSet::new();
    for submitter in 0..SUBMITTERS {
        let network = Arc::clone(network);
        submitters.spawn(async move {
            let mut ids = Vec::new();
            for number in (submitter..BUILDS + GIT_BUILDS).step_by(SUBMITTERS) {
                ids.push(submit(Arc::clone(&network), number).await);
            }
            ids
        });
    }
    submitters.join_all().await.into_iter().flatten().collect()
}

async fn two_hundred_builders_race_for_a_thousand_builds(store: Store) {
    let database = match store {
        Store::Sqlite => None,
        Store::Postgres => Some(baton_testkit::database().await),
    };
    let (home, url) = (tempfile::tempdir().unwrap(), database.as_ref().map(Database::url));
    let mut server = serve_with(home.path(), url, Leases::LONG, &SETTINGS).await;
    let (direct, at) = (client(&server.url()), address(&server.url()));
    let network = Arc::new(Network { proxy: Proxy::start(at).await, repeats: AtomicU64::new(0) });
    network.proxy.lose_answers_at_random(LOSS, SEED);

    let begun = Instant::now();
    let over = watch::Sender::new(false);
    let (mut builders, mut git_builders) = (JoinSet::new(), JoinSet::new());
    for number in 0..BUILDERS {
        builders.spawn(build_with_a_token(Arc::clone(&network), number, over.subscribe()));
    }
    for _ in 0..GIT_BUILDERS {
        git_builders.spawn(build_with_a_key(Arc::clone(&network), over.subscribe()));
    }
    let ids = submit_all(&network).await;
    let submitted = begun.elapsed();
    eventually("all builds completed", async || {
        let counts = Request::get("/api/builds/statistics").send(at).await.ok()?.json();
        (counts["completed"] == BUILDS + GIT_BUILDS).then_some(())
    })
    .await;
    over.send_replace(true);
    let (builders, git_completed) = (builders.join_all().await, git_builders.join_all().await);
    let (lost, repeats) = (network.proxy.lost(), network.repeats.load(Ordering::Relaxed));
    let built = begun.elapsed();
    println!(
        "seed {SEED}: {lost} answers lost, {repeats} calls repeated; all submitted in {submitted:?}, built in {built:?}"
    );
    assert!(lost > 500, "only {lost} answers were lost");

    let results = assert_each_was_built_by_one(&direct, &ids, &builders).await;
    let git_completed: usize = git_completed.iter().sum();
    assert!(git_completed <= GIT_BUILDS, "{git_completed} of {GIT_BUILDS} builds were completed");
    assert_nobody_is_locked_out(&direct, at, &builders).await;
    assert_downloads(at, &ids, &results).await;

    assert!(server.stop().await.success());
    let server = serve_with(home.path(), url, Leases::LONG, &COLLECTING).await;
    collected(address(&server.url())).await;
    assert_only_what_is_needed_is_stored(home.path(), &results).await;
}

/// Returns what came out of each build with a source, by its number.
async fn assert_each_was_built_by_one(
    client: &Client,
    ids: &HashMap<usize, String>,
    builders: &[Builder],
) -> HashMap<usize, Vec<u8>> {
    let mut built: HashMap<&str, Vec<&[u8]>> = HashMap::new();
    for (id, result) in builders.iter().flat_map(|builder| &builder.built) {
        built.entry(id).or_default().push(result);
    }
    let mut results = HashMap::new();
    for (number, id) in ids.iter().filter(|(number, _)| **number < BUILDS) {
        let by = built.get(id.as_str()).map_or(&[][..], Vec::as_slice);
        assert_eq!(by.len(), 1, "builders that were told they had completed build {number}: {by:?}");
        results.insert(*number, by[0].to_vec());
    }
    let all: Vec<String> = ids.values().cloned().collect();
    assert_eq!(all.len(), BUILDS + GIT_BUILDS);
    let numbers: HashMap<&String, usize> = ids.iter().map(|(number, id)| (id, *number)).collect();
    for ended in each_completed_once(client, &all).await {
        // Whoever has a name asks again and gets the same build. Not one lease ran out.
        if numbers[&ended.run.id] < BUILDS {
            assert_eq!((ended.run.epoch, ended.run.losses), (1, 0), "{ended:?}");
        } else {
            assert_eq!(ended.run.epoch, ended.run.losses + 1, "{ended:?}");
        }
    }
    results
}

async fn assert_nobody_is_locked_out(client: &Client, at: SocketAddr, builders: &[Builder]) {
    let mut questions = JoinSet::new();
    for builder in builders {
        let poll = builder.with_token(Request::get("/api/workers/poll"));
        let stats = Request::get(&format!("/api/workers/{}/stats", builder.name));
        let name = builder.name.clone();
        questions.spawn(async move {
            let polled = poll.send(at).await.unwrap();
            assert_eq!(polled.status, 200, "{name} was locked out: {polled:?}");
            stats.send(at).await.unwrap().json()["successfulBuilds"].as_u64().unwrap()
        });
    }
    let succeeded: u64 = questions.join_all().await.iter().sum();
    assert_eq!(succeeded, BUILDS as u64, "builds counted for their builders");
    let (mut cursor, mut lines) = (None, Vec::new());
    loop {
        let page = client.audit_log(Some(1_000), cursor.as_deref()).await.unwrap();
        lines.extend(page.lines);
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    // Registering again is only for those whose first registration was not answered.
    let wrong: Vec<_> = lines.iter().filter(|line| line.action.starts_with("builder.")).collect();
    let wrong: Vec<_> = wrong.iter().filter(|line| line.action != "builder.registered_again").collect();
    assert!(wrong.is_empty(), "builders were refused or revoked: {wrong:?}");
}

async fn assert_downloads(at: SocketAddr, ids: &HashMap<usize, String>, results: &HashMap<usize, Vec<u8>>) {
    for (number, result) in results {
        let path = format!("/api/builds/{}/download", ids[number]);
        assert_eq!(Request::get(&path).send(at).await.unwrap().body, *result);
        let source = Request::get(&format!("{path}/source")).send(at).await.unwrap();
        assert_eq!(source.body, source_of(*number));
    }
}

async fn assert_only_what_is_needed_is_stored(home: &Path, results: &HashMap<usize, Vec<u8>>) {
    let sources = (0..BUILDS).map(|number| stored::file("source", &source_of(number)));
    let mut wanted: Vec<_> = sources.chain(results.values().map(|result| stored::file("result", result))).collect();
    wanted.sort_unstable();
    let root = home.join("data/artifacts");
    assert!(files_of_builds(&root) == wanted, "files are missing, or there are too many");
    // The server writes a file of its own now and then, so there may be a draft at any one moment.
    eventually("no drafts", async || stored::entries(&root.join("drafts")).is_empty().then_some(())).await;
}

on_both_stores!(two_hundred_builders_race_for_a_thousand_builds);
