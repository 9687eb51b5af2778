//! A server that falls when it is told to, and clients that do not mind.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use baton_testkit::{Database, Process, S3_KEY, S3_SECRET, free_port, start_s3};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::site::{BATON, Leases, Store};
use crate::stored::{COLLECTING, Stored, entries, files_of_builds, has_collected};
use crate::wait::{PATIENCE, eventually};
use crate::wire::{Answer, Request};

/// Pause before a call is repeated.
const PAUSE: Duration = Duration::from_millis(10);
const BUCKET: &str = "builds";
const PREFIX: &str = "baton";

/// Where files are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Storage {
    Directory,
    Bucket,
    /// A directory with a bucket as its mirror.
    Mirrored,
}

/// A build that was submitted, and what has to be stored for it.
#[derive(Debug)]
pub struct Expected {
    pub id: String,
    pub files: Vec<Stored>,
}

/// A build that somebody has to build.
pub struct Submitted {
    pub id: String,
    pub source: Vec<u8>,
}

/// A server with its store and its storage, over many falls.
pub struct Yard {
    process: Option<(Process, SocketAddr)>,
    /// Where it falls in this story, whether it has, and whether the server that is there still does.
    point: Option<String>,
    fallen: bool,
    is_armed: bool,
    collecting: bool,
    builds: Vec<Expected>,
    stories: usize,
    bucket: Option<SocketAddr>,
    storage: Storage,
    store: Store,
    home: TempDir,
    database: Option<Database>,
}

impl Yard {
    pub async fn new(store: Store, storage: Storage) -> Yard {
        let home = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir_all(home.path().join("buckets").join(BUCKET)).expect("our own directory");
        let database = match store {
            Store::Sqlite => None,
            Store::Postgres => Some(baton_testkit::database().await),
        };
        let bucket = (storage != Storage::Directory).then(|| start_s3(&home.path().join("buckets")));
        Yard {
            process: None,
            point: None,
            fallen: false,
            is_armed: false,
            collecting: false,
            builds: Vec::new(),
            stories: 0,
            bucket,
            storage,
            store,
            home,
            database,
        }
    }

    /// How large the files of builds are here: so large that they come in several parts. With a
    /// mirror it is the order of both that counts.
    pub fn file_bytes(&self) -> usize {
        match self.storage {
            Storage::Directory | Storage::Mirrored => 1_200_000,
            Storage::Bucket => 5_600_000,
        }
    }

    /// Whatever happens from now on is another story.
    pub fn begin_story(&mut self) {
        self.stories += 1;
        (self.point, self.fallen) = (None, false);
    }

    /// Has a server that falls at this point, in the place of the one that is there.
    pub async fn serve(&mut self, point: Option<&str>) {
        let is_plain = self.process.is_some() && !self.is_armed && !self.collecting;
        if point.is_none() && is_plain {
            return;
        }
        self.collecting = false;
        self.arm(point);
        self.start().await;
    }

    /// The next server falls at this point, or nowhere.
    fn arm(&mut self, point: Option<&str>) {
        self.is_armed = point.is_some();
        if let Some(point) = point {
            (self.point, self.fallen) = (Some(point.to_owned()), false);
        }
    }

    /// A number that is another one in each story, for names.
    pub fn story(&self) -> usize {
        self.stories
    }

    /// Whether the server has fallen in this story.
    pub fn has_fallen(&self) -> bool {
        self.fallen
    }

    /// Whether the server dies at this point in this story.
    pub fn dies_at(&self, point: &str) -> bool {
        self.point.as_deref().and_then(|named| named.split_once(':')).is_some_and(|(name, _)| name == point)
    }

    fn settings(&self) -> Vec<(String, String)> {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let mut all = Leases::of_ms(3_000, 500).settings();
        let builds = [
            // Builders repeat what was not answered, and none of them dies: on a busy machine a
            // result may take a while.
            ("BATON_BUILD_HEARTBEAT_TIMEOUT_MS", "60000"),
            ("BATON_BUILD_POLL_AFTER_MS", "100"),
            ("BATON_BUILD_POLLS_PER_SECOND", "0"),
            ("BATON_BUILD_GIT_LEASE_MS", "1500"),
            // What was left of an upload expires while later stories are told.
            ("BATON_UPLOAD_EXPIRY_MS", "20000"),
            ("BATON_STORAGE_FREE_BYTES_MIN", "0"),
        ];
        all.extend(builds.map(owned));
        if self.collecting {
            all.extend(COLLECTING.map(owned));
        }
        if let Some(point) = self.point.as_ref().filter(|_| self.is_armed) {
            all.push(("BATON_CRASH_POINT".into(), point.clone()));
        }
        if let Some(bucket) = self.bucket {
            let url = format!("s3://{BUCKET}/{PREFIX}?region=eu-north-1&endpoint=http://{bucket}");
            let is_mirror = self.storage == Storage::Mirrored;
            all.push((if is_mirror { "BATON_STORAGE_MIRROR_URL" } else { "BATON_STORAGE_URL" }.into(), url));
            all.extend([("AWS_ACCESS_KEY_ID", S3_KEY), ("AWS_SECRET_ACCESS_KEY", S3_SECRET)].map(owned));
        }
        all
    }

    /// Starts the server, and waits until it is ready or has fallen.
    async fn start(&mut self) {
        // The one before lets go of its files first.
        self.process = None;
        let listen: SocketAddr = ([127, 0, 0, 1], free_port()).into();
        let data = self.home.path().join("data");
        let mut arguments = vec!["serve".to_owned(), "--listen".to_owned(), listen.to_string()];
        arguments.extend(["--data".to_owned(), data.display().to_string()]);
        if let Some(database) = &self.database {
            arguments.extend(["--database".to_owned(), database.url().to_owned()]);
        }
        let mut process = Process::spawn(BATON, &arguments, self.settings());
        let until = Instant::now() + PATIENCE;
        while process.ended().is_none() {
            if Request::get("/readyz").send(listen).await.is_ok_and(|answer| answer.status == 200) {
                break;
            }
            assert!(Instant::now() < until, "the server is not ready; it printed:\n{}", process.output());
            sleep(PAUSE).await;
        }
        self.process = Some((process, listen));
    }

    /// Starts the server again if it has fallen. Nothing else may end it than the point it was told.
    async fn look_after(&mut self) {
        let Some((process, _)) = &mut self.process else { return };
        let Some(status) = process.ended() else { return };
        let killed = std::os::unix::process::ExitStatusExt::signal(&status) == Some(9);
        assert!(killed && self.is_armed, "the server ended with {status}; it printed:\n{}", process.output());
        (self.fallen, self.is_armed) = (true, false);
        self.start().await;
    }

    fn address(&self) -> SocketAddr {
        self.process.as_ref().expect("a server was started").1
    }

    /// Sends a request until it is answered, as every client does.
    pub async fn ask(&mut self, request: &Request) -> Answer {
        let until = Instant::now() + PATIENCE;
        loop {
            match request.send(self.address()).await {
                Ok(answer) if answer.status != 503 => return answer,
                other => assert!(Instant::now() < until, "no answer to {}: {other:?}", request.name()),
            }
            sleep(PAUSE).await;
            self.look_after().await;
        }
    }

    /// Notes a build that has to be there from now on, with these files.
    pub fn expect(&mut self, id: String, files: Vec<Stored>) {
        self.builds.push(Expected { id, files });
    }

    /// Has everything collected that nobody needs, by a server that falls at this point.
    pub async fn collect(&mut self, point: Option<&str>) {
        self.collecting = true;
        self.arm(point);
        self.start().await;
        let until = Instant::now() + PATIENCE;
        self.look_after().await;
        while !has_collected(self.address()).await {
            assert!(Instant::now() < until, "nothing is collected");
            sleep(PAUSE).await;
            self.look_after().await;
        }
    }

    /// Demands that every build has ended well, and that exactly their files are stored.
    pub async fn assert_all_is_well(&mut self) {
        let last = self.builds.last().map(|build| build.id.clone()).expect("a story has a build");
        let build = self.ask(&Request::get(&format!("/api/builds/{last}/status"))).await;
        assert_eq!(build.text("status"), "completed", "{}: {build:?}", self.what());
        let counts = self.ask(&Request::get("/api/builds/statistics")).await.json();
        let wanted = self.builds.len();
        assert_eq!((&counts["completed"], &counts["total"]), (&Value::from(wanted), &Value::from(wanted)), "{counts}");

        let mut wanted: Vec<Stored> = self.builds.iter().flat_map(|build| build.files.clone()).collect();
        wanted.sort_unstable();
        for (is_directory, root) in self.roots() {
            let mut found = files_of_builds(&root);
            // A bucket has no folders; the stand-in for one keeps them.
            found.retain(|(kind, _)| is_directory || kind != "empty folder");
            assert!(found == wanted, "{}: stored are {}", self.what(), difference(&found, &wanted));
        }
        assert_eq!(self.rows().await, wanted.len(), "{}: rows of files", self.what());
        // The server writes a file of its own now and then, so there may be a draft at any one moment.
        let what = format!("{}: no drafts", self.what());
        let roots = self.roots();
        let has_drafts = || {
            let folders = roots.iter().flat_map(|(_, root)| ["drafts", "pending"].map(|folder| root.join(folder)));
            folders.into_iter().any(|folder| !entries(&folder).is_empty())
        };
        eventually(&what, async || (!has_drafts()).then_some(())).await;
        let parts = entries(&self.home.path().join("buckets"))
            .into_iter()
            .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".upload_id-")));
        assert_eq!(parts.collect::<Vec<_>>(), Vec::<PathBuf>::new(), "{}: parts in the bucket", self.what());
    }

    /// Demands that nothing is left of uploads, once they have expired.
    pub async fn assert_nothing_is_under_way(&mut self) {
        let roots = self.roots();
        let left = |folder: PathBuf| !entries(&folder).is_empty();
        let any = || roots.iter().flat_map(|(_, root)| entries(&root.join("uploads"))).any(left);
        eventually("the end of all uploads", async || (!any()).then_some(())).await;
    }

    fn what(&self) -> String {
        format!("killed at {}", self.point.as_deref().unwrap_or("no point"))
    }

    /// Where the files are: each storage, and whether it is a directory.
    pub fn roots(&self) -> Vec<(bool, PathBuf)> {
        let directory = (true, self.home.path().join("data/artifacts"));
        let bucket = (false, self.home.path().join("buckets").join(BUCKET).join(PREFIX));
        match self.storage {
            Storage::Directory => vec![directory],
            Storage::Bucket => vec![bucket],
            Storage::Mirrored => vec![directory, bucket],
        }
    }

    /// How many files the store knows of.
    async fn rows(&self) -> usize {
        self.count("select count(*) from artifacts").await
    }

    /// What a statement counts in the store.
    pub async fn count(&self, statement: &str) -> usize {
        let count: i64 = match &self.database {
            None => {
                let database = rusqlite::Connection::open(self.home.path().join("data/baton.db")).unwrap();
                database.query_row(statement, [], |row| row.get(0)).unwrap()
            }
            Some(database) => {
                let (client, connection) =
                    tokio_postgres::connect(database.url(), tokio_postgres::NoTls).await.unwrap();
                tokio::spawn(connection);
                client.query_one(statement, &[]).await.unwrap().get(0)
            }
        };
        count.try_into().unwrap()
    }

    /// A file of a build that no other build has: bytes that do not repeat, from a seed.
    pub fn bytes(&self, what: u64) -> Vec<u8> {
        let mut state = (self.stories as u64) << 32 | what << 8 | u64::from(self.store == Store::Postgres);
        let mut next = || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let bits = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (bits ^ (bits >> 27)).to_le_bytes()
        };
        (0..self.file_bytes() / 8).flat_map(|_| next()).collect()
    }
}

/// What is too much, and what is missing.
fn difference(found: &[Stored], wanted: &[Stored]) -> String {
    let without = |all: &[Stored], others: &[Stored]| {
        let mut left = others.to_vec();
        let is_extra = |file: &&Stored| match left.iter().position(|other| other == *file) {
            Some(at) => {
                left.swap_remove(at);
                false
            }
            None => true,
        };
        all.iter().filter(is_extra).cloned().collect::<Vec<_>>()
    };
    format!("too many: {:?}, missing: {:?}", without(found, wanted), without(wanted, found))
}
