//! From one storage to another while builds are submitted, and storages that are gone.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use baton_testkit::{Baton, Database, S3_KEY, S3_SECRET, start_s3};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::commands::{Said, baton};
use crate::site::{API_KEY, Leases, serve_with};
use crate::wait::eventually;
use crate::wire::{Answer, Request, sha256};

const CREDENTIALS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", S3_KEY), ("AWS_SECRET_ACCESS_KEY", S3_SECRET)];
/// Between two builds: enough of them, and not so many that looking at all of them takes long.
const PACE: Duration = Duration::from_millis(20);
/// More than one part of a bucket.
const LARGE: usize = (5 << 20) + 500_000;

/// Two servers of one installation, a directory and a bucket.
struct Installation {
    servers: [Baton; 2],
    directory: PathBuf,
    bucket: String,
    home: TempDir,
    _database: Database,
}

impl Installation {
    async fn on_a_directory() -> Installation {
        let home = tempfile::tempdir().unwrap();
        let (directory, buckets) = (home.path().join("files"), home.path().join("buckets"));
        std::fs::create_dir_all(buckets.join("builds")).unwrap();
        let bucket = format!("s3://builds/baton?region=eu-north-1&endpoint=http://{}", start_s3(&buckets));
        let database = baton_testkit::database().await;
        let settings = [
            ("BATON_STORAGE_URL", directory.to_str().unwrap()),
            ("BATON_STORAGE_FREE_BYTES_MIN", "0"),
            ("BATON_PAYLOAD_INLINE_BYTES_MAX", "100"),
        ];
        let settings: Vec<_> = settings.into_iter().chain(CREDENTIALS).collect();
        let (homes, url) = ([home.path().join("a"), home.path().join("b")], Some(database.url()));
        let start = |home: usize| serve_with(&homes[home], url, Leases::LONG, &settings);
        let servers = [start(0).await, start(1).await];
        Installation { servers, directory, bucket, home, _database: database }
    }

    fn addresses(&self) -> [SocketAddr; 2] {
        self.servers.each_ref().map(address)
    }

    /// Restarts one server after the other with this storage and this mirror.
    async fn keep_files_in(&mut self, storage: &str, mirror: Option<&str>) {
        for server in &mut self.servers {
            let settings = [("BATON_STORAGE_URL", Some(storage)), ("BATON_STORAGE_MIRROR_URL", mirror)];
            server.restart_with(&settings).await;
        }
    }

    /// `baton storage ...` from the directory to the bucket.
    async fn storage(&self, command: &str, more: &[(&str, &str)]) -> (Said, Value) {
        let directory = self.directory.to_str().unwrap();
        let arguments = ["storage", command, "--from", directory, "--to", &self.bucket, "--verify", "--json"];
        let variables = CREDENTIALS.into_iter().chain(more.iter().copied());
        let said = baton(self.home.path(), variables, &arguments, "").await;
        let summary = serde_json::from_str(&said.out).unwrap_or_default();
        (said, summary)
    }
}

fn address(server: &Baton) -> SocketAddr {
    server.url().trim_start_matches("http://").parse().unwrap()
}

async fn ask(to: SocketAddr, request: &Request, expected: u16) -> Answer {
    let answer = request.send(to).await.unwrap_or_else(|error| panic!("{}: {error}", request.name()));
    assert_eq!(answer.status, expected, "{}: {answer:?}", request.name());
    answer
}

/// Somebody who submits builds all the time, to whichever server answers.
#[derive(Default)]
struct Submitter {
    builds: Mutex<Vec<(String, String)>>,
    is_done: AtomicBool,
}

impl Submitter {
    fn count(&self) -> usize {
        self.builds.lock().unwrap().len()
    }

    async fn submit(&self, to: [SocketAddr; 2]) {
        for number in 0.. {
            if self.is_done.load(Ordering::Acquire) {
                return;
            }
            let source = source(number);
            let key = format!("build-{number}");
            let fields: [crate::wire::Field<'_>; 2] = [("platform", None, b"ios"), ("source", Some("a.zip"), &source)];
            let request = Request::post("/api/builds").header("idempotency-key", key).form(&fields);
            let id = eventually("somebody takes the build", async || {
                for address in to {
                    match request.send(address).await {
                        Ok(answer) if answer.status == 201 => return Some(answer.text("id")),
                        Ok(answer) => assert_eq!(answer.status, 503, "{answer:?}"),
                        Err(_) => {}
                    }
                }
                None
            })
            .await;
            self.builds.lock().unwrap().push((id, sha256(&source)));
            tokio::time::sleep(PACE).await;
        }
    }
}

fn source(number: usize) -> Vec<u8> {
    let size = if number == 3 { LARGE } else { 10_000 + number };
    format!("source {number} ").into_bytes().into_iter().cycle().take(size).collect()
}

fn piece(path: &str, offset: usize, bytes: &[u8]) -> Request {
    let piece = Request::new("PATCH", path).header("tus-resumable", "1.0.0").header("upload-offset", offset);
    piece.header("content-type", "application/offset+octet-stream").body(bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_moves_to_a_bucket_while_builds_are_submitted() {
    let mut site = Installation::on_a_directory().await;
    let [a, b] = site.addresses();
    let submitter = Submitter::default();
    let story = async {
        // A file of the cache, a report, a large input, and an upload that takes as long as all of
        // this.
        let (cached, upload) = (b"a file of the cache", b"half of it and the other half");
        let cache = format!("/api/v1/cache/{}", sha256(cached));
        ask(a, &Request::new("PUT", &cache).body(cached), 201).await;
        let report = json!({"worker_id": "mac", "disk": "full"});
        ask(a, &Request::post("/api/diagnostics/report").json(&report), 200).await;
        let input = "i".repeat(1_000);
        let run = json!({"queue": "large", "type": "large", "input": input});
        let run = ask(a, &Request::post("/api/v1/runs").json(&run), 201).await.text("id");
        let begin = Request::post("/api/v1/uploads").header("tus-resumable", "1.0.0");
        let begun = ask(a, &begin.header("upload-length", upload.len()), 201).await;
        let pieces = begun.header("location").unwrap().to_owned();
        ask(a, &piece(&pieces, 0, &upload[..10]), 204).await;
        eventually("builds in the directory alone", async || (submitter.count() >= 8).then_some(())).await;

        let (directory, bucket) = (site.directory.to_str().unwrap().to_owned(), site.bucket.clone());
        site.keep_files_in(&directory, Some(&bucket)).await;
        let (said, missing) = site.storage("check", &[]).await;
        assert_eq!(
            (said.code, &missing["complete"], &missing["uploads_left"]),
            (1, &json!(false), &json!(1)),
            "{said:?}"
        );
        ask(b, &piece(&pieces, 10, &upload[10..]), 204).await;

        if cfg!(debug_assertions) {
            let (killed, _) = site.storage("move", &[("BATON_CRASH_POINT", "draft.part:5")]).await;
            assert_eq!((killed.code, killed.out.as_str()), (-1, ""), "it was killed in the middle");
        }
        let (said, moved) = site.storage("move", &[]).await;
        assert_eq!((said.code, &moved["failed"], &moved["uploads_left"]), (0, &json!(0), &json!(0)), "{said:?}");
        assert!(moved["copied"].as_u64() > Some(0) && moved["present"].as_u64() > Some(0), "{moved}");
        let (said, checked) = site.storage("check", &[]).await;
        assert_eq!((said.code, &checked["complete"]), (0, &json!(true)), "{said:?}");

        site.keep_files_in(&bucket, Some(&directory)).await;
        let before = submitter.count();
        eventually("builds in both", async || (submitter.count() > before + 1).then_some(())).await;
        site.keep_files_in(&bucket, None).await;
        std::fs::remove_dir_all(&site.directory).unwrap();
        let before = submitter.count();
        eventually("builds in the bucket alone", async || (submitter.count() > before + 1).then_some(())).await;
        submitter.is_done.store(true, Ordering::Release);

        let id = pieces.rsplit('/').next().unwrap();
        let build =
            Request::post("/api/builds").form(&[("platform", None, b"ios"), ("source_upload", None, id.as_bytes())]);
        let id = ask(a, &build, 201).await.text("id");
        submitter.builds.lock().unwrap().push((id, sha256(upload)));
        assert_eq!(ask(b, &Request::get(&cache), 200).await.body, cached);
        let latest = ask(b, &Request::get("/api/diagnostics/mac/latest"), 200).await;
        assert_eq!(latest.json()["disk"], report["disk"]);
        assert_eq!(ask(b, &Request::get(&format!("/api/v1/runs/{run}")), 200).await.text("input"), input);
    };
    tokio::join!(submitter.submit([a, b]), story);
    let builds = submitter.builds.into_inner().unwrap();
    for (id, sum) in &builds {
        let source = ask(a, &Request::get(&format!("/api/builds/{id}/download/source")), 200).await;
        assert_eq!(sha256(&source.body), *sum, "{id}");
    }
    let health = ask(a, &Request::get("/health"), 200).await.json();
    assert_eq!((&health["storage"], health["storages"].as_array().unwrap().len()), (&json!("s3"), 1));
}

fn build() -> Request {
    Request::post("/api/builds").form(&[("platform", None, b"ios"), ("source", Some("a.zip"), b"a source")])
}

/// Moves a directory away, as if its disk was not mounted.
fn unmount(directory: &Path) -> PathBuf {
    let aside = directory.with_extension("aside");
    std::fs::rename(directory, &aside).unwrap();
    aside
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storage_that_is_gone_is_named_to_those_who_may_know() {
    let home = tempfile::tempdir().unwrap();
    let (first, mirror) = (home.path().join("first"), home.path().join("mirror"));
    let settings = [
        ("BATON_STORAGE_URL", first.to_str().unwrap()),
        ("BATON_STORAGE_MIRROR_URL", mirror.to_str().unwrap()),
        ("BATON_STORAGE_FREE_BYTES_MIN", "0"),
    ];
    let mut server = serve_with(home.path(), None, Leases::LONG, &settings).await;
    let at = address(&server);
    let variables = [("BATON_URL", server.url()), ("BATON_API_KEY", API_KEY.to_owned())];
    let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
    let health = |status: u16| async move {
        let answer = Request::get("/health").send(at).await.unwrap();
        (answer.status == status).then_some(answer)
    };
    let id = ask(at, &build(), 201).await.text("id");
    for (gone, role) in [(&mirror, "mirror"), (&first, "storage")] {
        let path = gone.to_str().unwrap();
        let aside = unmount(gone);
        let refused = ask(at, &build(), 503).await;
        assert_eq!(refused.text("code"), "storage_unavailable");
        let text = refused.text("error");
        assert!(text.starts_with("the artifact storage cannot be reached now; try again"), "{text}");
        assert!(refused.header("retry-after").is_some() && !text.contains(path), "{text}");
        ask(at, &Request::get(&format!("/api/builds/{id}/download/source")), 200).await;

        let known = eventually("the server says so", || health(503)).await.json();
        assert_eq!((&known["status"], &known["code"]), (&json!("unavailable"), &json!("storage_unavailable")));
        assert!(known["storage"] == "directory" && known["queue"]["pending"].is_u64(), "{known}");
        let failed = known["storages"].as_array().unwrap().iter().find(|one| one["role"] == role).unwrap();
        assert_eq!((&failed["status"], &failed["url"]), (&json!("unavailable"), &json!(path)));
        let unknown = Request::anonymous("GET", "/api/health").send(at).await.unwrap();
        let text = String::from_utf8_lossy(&unknown.body).into_owned();
        assert!(unknown.status == 503 && text.contains(role) && !text.contains(path), "{text}");
        let doctor = baton(home.path(), variables, &["doctor"], "").await;
        assert!(doctor.code == 1 && doctor.out.contains(&format!("{path}: the directory is gone")), "{doctor:?}");

        std::fs::rename(&aside, gone).unwrap();
        eventually("the server is well again", || health(200)).await;
        ask(at, &build(), 201).await;
    }
    let log = server.process().output();
    assert!(log.contains("the artifact storage cannot be reached") && log.contains(mirror.to_str().unwrap()), "{log}");
    let doctor = baton(home.path(), variables, &["doctor"], "").await;
    assert!(doctor.out.contains(&format!("mirror {}", mirror.display())), "{doctor:?}");
}

#[tokio::test]
async fn a_move_that_cannot_begin_says_why() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(home.path().join("here/drafts")).unwrap();
    std::fs::create_dir(home.path().join("unmounted")).unwrap();
    let closed = format!("s3://b?region=x&endpoint=http://127.0.0.1:{}", baton_testkit::free_port());
    for (from, to, code, says) in [
        ("nowhere", "there", 5, "--from: there is no storage in nowhere"),
        ("unmounted", "there", 5, "or it is not mounted"),
        ("here", "here", 2, "the same storage"),
        ("here", "gs://b", 2, "--to: the storage must be"),
        ("here", closed.as_str(), 5, "s3://b?endpoint=http://127.0.0.1"),
    ] {
        for command in ["move", "check"] {
            let said = baton(home.path(), CREDENTIALS, &["storage", command, "--from", from, "--to", to], "").await;
            assert!(said.code == code && said.err.contains(says), "{says}: {said:?}");
            assert!(!said.err.contains("copied"), "nothing was: {said:?}");
        }
    }
    // Nobody gives out credentials of this machine.
    let machine = format!("http://127.0.0.1:{}", baton_testkit::free_port());
    let arguments = ["storage", "check", "--from", "here", "--to", &closed];
    let said = baton(home.path(), [("AWS_METADATA_ENDPOINT", machine.as_str())], &arguments, "").await;
    let says = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
    assert!(said.code == 5 && said.err.contains("there are no credentials for s3://b"), "{said:?}");
    assert!(said.err.contains(says) && !said.err.contains(&machine), "{said:?}");

    let arguments = ["storage", "move", "--from", "here", "--to", "there"];
    let said = baton(home.path(), [], &arguments, "").await.ok();
    assert!(said.contains("copied") && said.ends_with("The target has every file."), "{said}");
    let said = baton(home.path(), [], &[&arguments[..], &["--prune"]].concat(), "").await;
    let here = home.path().join("here").canonicalize().unwrap();
    let refused = format!("refused: {} has no files, so nothing was deleted. Is it the right one?", here.display());
    assert!(said.code == 1 && said.err.contains(&refused), "{said:?}");
}

/// A directory as servers leave it, with files of these sizes.
fn directory(path: &Path, files: impl IntoIterator<Item = (usize, usize)>) {
    std::fs::create_dir_all(path.join("drafts")).unwrap();
    std::fs::create_dir_all(path.join("payloads")).unwrap();
    for (number, size) in files {
        std::fs::write(path.join(format!("payloads/{number:03}")), vec![b'x'; size]).unwrap();
    }
}

#[tokio::test]
async fn a_check_names_what_is_missing_and_what_differs() {
    let home = tempfile::tempdir().unwrap();
    let (old, new) = (home.path().join("old"), home.path().join("new"));
    directory(&old, (0..30).map(|number| (number, 10)));
    directory(&new, (0..5).map(|number| (number, 10)));
    std::fs::write(new.join("payloads/004"), "y".repeat(10)).unwrap();
    let check = async |more: &[&str]| {
        let arguments = [&["storage", "check", "--from", "old", "--to", "new"], more].concat();
        baton(home.path(), [], &arguments, "").await
    };
    let said = check(&["--verify"]).await;
    let lines: Vec<_> = said.out.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!((said.code, &lines[2][..], &lines[3][..]), (1, "missing 25 files (250 B)", "payloads/005"));
    let rest = ["payloads/024", "and 5 more: see --json", "differs 1 file", "payloads/004"];
    assert_eq!(lines[22..26], rest, "{lines:?}");
    let end = ["there already 4 files, checksums equal", "The target does not have everything yet."];
    assert_eq!(lines[26..], end, "{lines:?}");
    let said = check(&["--json", "--verify"]).await;
    let json: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&json["missing"], &json["missing_bytes"], &json["differs"]), (&json!(25), &json!(250), &json!(1)));
    assert_eq!(json["missing_names"].as_array().unwrap().len(), 25);
    assert_eq!((&json["differs_names"], &json["names_left_off"]), (&json!(["payloads/004"]), &json!(0)));
    assert!(json.get("copied").is_none() && json["verified"] == true, "{json}");
    // Equal sizes are proof to those who do not ask for checksums.
    let said = check(&[]).await;
    assert!(said.code == 1 && said.out.contains("differs        0 files"), "{said:?}");
    assert!(said.out.contains("5 files, sizes equal"), "{said:?}");

    let arguments = ["storage", "move", "--from", "old", "--to", "new", "--verify", "--json"];
    let json: Value = serde_json::from_str(&baton(home.path(), [], &arguments, "").await.ok()).unwrap();
    assert_eq!((&json["copied"], &json["copied_bytes"], json.get("missing")), (&json!(26), &json!(260), None));
    let said = check(&["--verify"]).await.ok();
    assert!(said.contains("30 files, checksums equal") && said.ends_with("The target has every file."), "{said}");
}

#[tokio::test]
async fn an_upload_under_way_is_no_file_that_a_move_left() {
    let home = tempfile::tempdir().unwrap();
    let old = home.path().join("old");
    let settings = [("BATON_STORAGE_URL", old.to_str().unwrap()), ("BATON_STORAGE_FREE_BYTES_MIN", "0")];
    let server = serve_with(&home.path().join("data"), None, Leases::LONG, &settings).await;
    let begin = Request::post("/api/v1/uploads").header("tus-resumable", "1.0.0").header("upload-length", 10);
    ask(address(&server), &begin, 201).await;
    for (command, code) in [("move", 0), ("check", 1)] {
        let said = baton(home.path(), [], &["storage", command, "--from", "old", "--to", "new"], "").await;
        let says = "The target has every file. 1 upload is still under way: see docs/storage.md\n";
        assert!(said.code == code && said.out.ends_with(says), "{said:?}");
    }
}
