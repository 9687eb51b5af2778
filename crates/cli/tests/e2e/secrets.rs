//! The master key with the real program: where it comes from, how it is rotated under load, and a kill at every point.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use baton::Client;
use baton::proto::{Claim, ClaimedRun, CompleteRun, RegisterWorker, RotateSecret};
use baton_testkit::{Baton, Process, free_port};
use serde_json::{Value, json};

use crate::on_both_stores;
use crate::site::{API_KEY, BATON, KIND, Leases, QUEUE, Store, client, job, serve_with, submit};

const PATIENCE: Duration = Duration::from_secs(30);

/// A server that may fall.
struct Place {
    data: PathBuf,
    database: Option<baton_testkit::Database>,
    process: Option<Process>,
    port: u16,
    _home: tempfile::TempDir,
}

impl Place {
    async fn new(store: Store) -> Place {
        let database = match store {
            Store::Sqlite => None,
            Store::Postgres => Some(baton_testkit::database().await),
        };
        let home = tempfile::tempdir().unwrap();
        Place { data: home.path().join("data"), database, process: None, port: free_port(), _home: home }
    }

    /// Starts a server, and waits until it is ready or has fallen. True when it is ready.
    async fn start(&mut self, point: Option<&str>) -> bool {
        self.process = None;
        let mut arguments = vec!["serve".to_owned(), "--listen".into(), format!("127.0.0.1:{}", self.port)];
        arguments.extend(["--data".into(), self.data.display().to_string()]);
        if let Some(database) = &self.database {
            arguments.extend(["--database".into(), database.url().to_owned()]);
        }
        let mut settings = Leases::LONG.settings();
        settings.extend(point.map(|point| ("BATON_CRASH_POINT".to_owned(), point.to_owned())));
        let mut process = Process::spawn(BATON, &arguments, settings);
        let until = Instant::now() + PATIENCE;
        let ready = loop {
            if process.ended().is_some() {
                break false;
            }
            if self.client().readyz().await.is_ok() {
                break true;
            }
            assert!(Instant::now() < until, "the server is not ready; it printed:\n{}", process.output());
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        self.process = Some(process);
        ready
    }

    fn client(&self) -> Client {
        client(&format!("http://127.0.0.1:{}", self.port))
    }

    fn key_lines(&self) -> usize {
        std::fs::read_to_string(self.data.join("master.key")).unwrap().lines().count()
    }
}

async fn claim(client: &Client, worker: &str) -> ClaimedRun {
    submit(client, vec![job()]).await;
    let claimed = client.claim(worker, &Claim { wait_ms: Some(5_000), ..Claim::default() }).await.unwrap();
    claimed.runs.into_iter().next().expect("there is a run")
}

async fn register(client: &Client) -> String {
    let worker = json!({"queues": [QUEUE], "types": [KIND], "max_concurrent": 100});
    let worker: RegisterWorker = serde_json::from_value(worker).unwrap();
    client.register(&worker).await.unwrap().worker_id
}

fn done(lease: &str) -> CompleteRun {
    CompleteRun { run_id: None, lease: lease.into(), output: None }
}

/// Falls at every point of making and rotating the secret. What is left always starts, keeps its leases and can be rotated.
async fn a_kill_at_any_point_leaves_an_installation_that_starts(store: Store) {
    for (point, _) in baton_server::crash::SECRET_POINTS {
        let mut place = Place::new(store).await;
        let at_start = ["secret.key_made", "secret.kept"].contains(point);
        // Only where nobody else may need it is the key made anew with a rotation.
        let is_reached = matches!(store, Store::Sqlite) || at_start || *point == "secret.rotated";
        if !is_reached {
            continue;
        }
        if at_start {
            assert!(!place.start(Some(point)).await, "{point} was not reached");
            assert!(place.start(None).await, "after {point}");
        } else {
            assert!(place.start(None).await);
        }
        let client = place.client();
        let worker = register(&client).await;
        let held = claim(&client, &worker).await;
        if !at_start {
            drop(place.process.take());
            assert!(place.start(Some(point)).await);
            client.rotate_secret(&RotateSecret::default()).await.expect_err("it falls before it answers");
            assert!(place.start(None).await, "after {point}");
        }
        client.complete(&held.run_id, &done(&held.lease)).await.unwrap_or_else(|error| panic!("{point}: {error}"));
        let before = client.secret_status().await.unwrap();
        assert_eq!(before.trouble, None, "{point}");
        let rotated = client.rotate_secret(&RotateSecret::default()).await.unwrap();
        assert_eq!(rotated.generation, before.generations.last().unwrap().generation + 1, "{point}");
        assert_eq!(place.key_lines(), 1, "{point}");
        let mode = std::fs::metadata(place.data.join("master.key")).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        let after = claim(&client, &worker).await;
        client.complete(&after.run_id, &done(&after.lease)).await.unwrap();
        assert!(place.start(None).await, "once more");
    }
}

/// Rotates again and again while workers claim and complete: nobody's lease is refused.
async fn rotations_under_load_cost_no_lease(store: Store) {
    let database = match store {
        Store::Sqlite => None,
        Store::Postgres => Some(baton_testkit::database().await),
    };
    let url = database.as_ref().map(baton_testkit::Database::url);
    let homes = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let count = if url.is_some() { 2 } else { 1 };
    let mut servers: Vec<Baton> = Vec::new();
    for home in &homes[..count] {
        servers.push(serve_with(home.path(), url, Leases::LONG, &[]).await);
    }
    let clients: Vec<Client> = servers.iter().map(|server| client(&server.url())).collect();
    let mut working = tokio::task::JoinSet::new();
    for number in 0..4 {
        // Claims at one server, and reports at the other where there are two.
        let (claims, reports) = (clients[number % count].clone(), clients[(number + 1) % count].clone());
        working.spawn(async move {
            let worker = register(&claims).await;
            let mut generations = std::collections::BTreeSet::new();
            for _ in 0..60 {
                let run = claim(&claims, &worker).await;
                generations.insert(run.lease.split('_').nth(1).unwrap().to_owned());
                reports.complete(&run.run_id, &done(&run.lease)).await.unwrap();
            }
            generations
        });
    }
    let mut rotations = 0;
    while !working.is_empty() {
        let rotated = clients[rotations % count].rotate_secret(&RotateSecret::default()).await.unwrap();
        rotations += 1;
        assert_eq!(rotated.generation as usize, rotations + 1);
        if let Ok(Some(done)) = tokio::time::timeout(Duration::from_millis(50), working.join_next()).await {
            assert!(!done.unwrap().is_empty());
        }
    }
    assert!(rotations > 2, "{rotations} rotations");
}

fn baton(arguments: &[&str], environment: &[(&str, &str)]) -> (i32, String) {
    let mut command = Command::new(BATON);
    command.args(arguments).envs(environment.iter().copied());
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
}

fn generate() -> String {
    let (code, key) = baton(&["secret", "generate"], &[]);
    assert_eq!(code, 0);
    key.trim().to_owned()
}

fn is_in(directory: &Path, needle: &str) -> bool {
    let has = |path: PathBuf| {
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes.windows(needle.len()).any(|window| window == needle.as_bytes())
    };
    std::fs::read_dir(directory).unwrap().any(|entry| has(entry.unwrap().path()))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_tell_where_the_key_is_and_rotate_it_but_never_show_it() {
    let home = tempfile::tempdir().unwrap();
    let (file, key) = (home.path().join("keys"), generate());
    std::fs::write(&file, &key).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    let more = [("BATON_MASTER_KEY_FILE", file.to_str().unwrap())];
    let mut server = serve_with(home.path(), None, Leases::LONG, &more).await;
    let url = server.url();
    let reach = [("BATON_URL", url.as_str()), ("BATON_API_KEY", API_KEY)];
    let (code, said) = baton(&["secret", "status"], &reach);
    assert!(code == 0 && said.contains("keys (file)") && said.contains("640") && !said.contains(&key), "{said}");
    let (_, said) = baton(&["doctor", "--json"], &reach);
    assert!(said.contains("others can read it") && !said.contains(&key), "{said}");
    let next = generate();
    std::fs::write(&file, format!("{next}\n{key}\n")).unwrap();
    let (code, said) = baton(&["secret", "rotate", "--overlap", "1h", "--json"], &reach);
    let rotated: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{code}: {error} in {said}"));
    assert_eq!(rotated["generation"], 2);
    assert_ne!(rotated["key_id"], rotated["key_id_before"]);
    let log = server.process().output();
    assert!(!log.contains(&key) && !log.contains(&next), "{log}");
    assert!(!is_in(&home.path().join("data"), &key) && !is_in(&home.path().join("data"), &next));
    // The old one is of no use any more.
    std::fs::write(&file, &next).unwrap();
    server.stop().await;
    server.restart().await;
    std::fs::write(&file, &key).unwrap();
    server.stop().await;
    let data = home.path().join("data");
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()];
    let (code, said) = baton(&arguments, &more);
    let needed = rotated["key_id"].as_str().unwrap();
    assert!(code == 1 && said.contains(needed) && !said.contains(&key), "{said}");
    let (_, said) = baton(&["doctor", "--data", data.to_str().unwrap()], &more);
    assert!(said.contains(needed) && said.contains("docs/secrets.md"), "{said}");
    // It is lost: begin anew.
    let reset = ["secret", "reset", "--data", data.to_str().unwrap()];
    assert_eq!(baton(&reset, &more).0, 2, "not by accident");
    let accept = [&reset[..], &["--i-accept-that-sealed-data-is-lost"]].concat();
    let (code, said) = baton(&accept, &more);
    assert!(code == 0 && said.contains("generation 3"), "{said}");
    server.restart().await;
    assert!(client(&server.url()).keys().await.is_ok(), "keys and history stay");
    let lines = client(&server.url()).audit_log(None, None).await.unwrap().lines;
    assert!(lines.iter().any(|line| line.action == "secret.reset"), "{lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_from_the_environment_or_a_command_is_in_no_file_and_no_list() {
    let key = generate();
    let command = format!("echo {key}");
    for more in [[("BATON_MASTER_KEY", key.as_str())], [("BATON_MASTER_KEY_COMMAND", command.as_str())]] {
        let home = tempfile::tempdir().unwrap();
        let mut server = serve_with(home.path(), None, Leases::LONG, &more).await;
        let url = server.url();
        let reach = [("BATON_URL", url.as_str()), ("BATON_API_KEY", API_KEY)];
        let (_, status) = baton(&["secret", "status"], &reach);
        let (_, listed) = baton(&["settings", "list", "--json"], &reach);
        assert!(!status.contains(&key) && !listed.contains(&key) && !listed.contains("master_key"), "{listed}");
        assert!(!home.path().join("data/master.key").exists());
        assert!(!is_in(&home.path().join("data"), &key) && !server.process().output().contains(&key));
    }
}

on_both_stores!(a_kill_at_any_point_leaves_an_installation_that_starts, rotations_under_load_cost_no_lease);
