//! Moves large files through the artifact storage over HTTP, and compares with `cp` and `sha256sum` of the same file on the same
//! disk, in the same run. See `bench/artifacts`.
//!
//!     artifact_bench [--mib 2048] [--at-once 8] [--directory DIR] [--storage URL]
//!
//! Ends with 1 when a floor is missed: 60% of the throughput of `cp` and `sha256sum`, 16 MiB of memory over idle for one file,
//! 64 MiB for eight.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path as Name, State};
use axum::response::{IntoResponse, Response};
use axum::routing::put;
use baton_core::RunId;
use baton_server::Error;
use baton_server::artifacts::{ArtifactPath, Download, Segment, Storage, Stored, Terms};
use futures_util::{StreamExt, TryStreamExt};
use http::{HeaderMap, Method};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const MIB: u64 = 1 << 20;
/// How often memory is looked at.
const SAMPLE: Duration = Duration::from_millis(10);
const RATIO_MIN: f64 = 0.6;
const MEMORY_MIB_MAX_ONE: u64 = 16;
const MEMORY_MIB_MAX_EIGHT: u64 = 64;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).is_some_and(|first| first == "serve") {
        serve(&arguments[2]);
        return ExitCode::SUCCESS;
    }
    let option = |name: &str| arguments.iter().skip_while(|argument| *argument != name).nth(1).cloned();
    let mib: u64 = option("--mib").map_or(2_048, |text| text.parse().expect("--mib is a number"));
    let at_once: usize = option("--at-once").map_or(8, |text| text.parse().expect("--at-once is a number"));
    let home = option("--directory").map_or_else(std::env::temp_dir, PathBuf::from);
    let home = tempfile::tempdir_in(home).expect("a directory to work in");
    match measure(home.path(), option("--storage"), mib, at_once) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

// The server, a process of its own so that its memory is its own.

struct Site {
    storage: Storage,
    stored: Mutex<HashMap<String, Stored>>,
}

#[tokio::main]
async fn serve(storage: &str) {
    let storage = Storage::open(storage, std::env::vars(), 0).expect("a storage");
    let site = Arc::new(Site { storage, stored: Mutex::default() });
    let router = Router::new().route("/{name}", put(upload).get(download)).with_state(site);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    println!("{}", listener.local_addr().expect("it is bound"));
    axum::serve(listener, router).await.expect("it serves until it is killed");
}

fn path(name: &str) -> ArtifactPath {
    ArtifactPath::of_run(RunId::floor(1), &Segment::new(name).expect("a name of ours"))
}

async fn upload(State(site): State<Arc<Site>>, Name(name): Name<String>, body: Body) -> Result<String, Error> {
    let cut = |_| Error::Malformed("the body ended early".into());
    let source = body.into_data_stream().map_err(cut).boxed();
    let stored = site.storage.put(&path(&name), source, Terms::up_to(u64::MAX)).await?;
    site.stored.lock().expect("nobody panics").insert(name, stored);
    Ok(stored.sha256.to_string())
}

async fn download(
    State(site): State<Arc<Site>>,
    Name(name): Name<String>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let stored = site.stored.lock().expect("nobody panics").get(&name).copied();
    let Some(Stored { size, sha256 }) = stored else {
        return Ok(http::StatusCode::NOT_FOUND.into_response());
    };
    let content_type = "application/octet-stream";
    Download { path: &path(&name), size, sha256, file_name: &name, content_type }
        .answer(&site.storage, &method, &headers)
        .await
}

// The clients.

struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(storage: &str) -> Server {
        let program = std::env::current_exe().expect("our own path");
        let mut child =
            Command::new(program).args(["serve", storage]).stdout(Stdio::piped()).spawn().expect("a server");
        let mut address = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut address).expect("its address");
        Server { child, address: address.trim().into() }
    }

    /// A value of the process's status, in MiB.
    fn memory_mib(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("Linux");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("it is there");
        line.trim_matches([':', ' ', '\t', 'k', 'B']).parse::<u64>().expect("a number") / 1_024
    }

    /// Runs the clients at once.
    fn run(&self, clients: usize, client: impl Fn(&str, usize) + Sync) -> Run {
        // Sets the mark of the most memory back to what there is now.
        std::fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5").expect("our own child");
        let (idle, idle_own) = (self.memory_mib("VmRSS"), self.memory_mib("RssAnon"));
        let (begun, busy) = (Instant::now(), AtomicUsize::new(clients));
        let own = std::thread::scope(|scope| {
            for number in 0..clients {
                let (client, busy) = (&client, &busy);
                scope.spawn(move || {
                    client(&self.address, number);
                    busy.fetch_sub(1, Ordering::Relaxed);
                });
            }
            let mut own = 0;
            while busy.load(Ordering::Relaxed) > 0 {
                own = own.max(self.memory_mib("RssAnon"));
                std::thread::sleep(SAMPLE);
            }
            own
        });
        Run {
            seconds: begun.elapsed().as_secs_f64(),
            memory_mib: self.memory_mib("VmHWM").saturating_sub(idle),
            own_mib: own.saturating_sub(idle_own),
        }
    }
}

/// What the clients saw, and what it cost the server over being idle.
struct Run {
    seconds: f64,
    /// The most it had, with those pages of the program that were first needed now.
    memory_mib: u64,
    /// Without them, sampled.
    own_mib: u64,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn send(address: &str, name: &str, file: &Path, sum: &str) {
    let mut file = File::open(file).expect("our own file");
    let size = file.metadata().expect("our own file").len();
    let mut socket = TcpStream::connect(address).expect("the server listens");
    let head = format!("PUT /{name} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {size}\r\n\r\n");
    socket.write_all(head.as_bytes()).expect("the server reads");
    std::io::copy(&mut file, &mut socket).expect("the server reads");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("the server answers");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(sum), "{answer}");
}

fn fetch(address: &str, name: &str, size: u64) {
    let mut socket = TcpStream::connect(address).expect("the server listens");
    let head = format!("GET /{name} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    socket.write_all(head.as_bytes()).expect("the server reads");
    let mut reader = BufReader::with_capacity(1 << 20, socket);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).expect("a head");
    }
    assert_eq!(std::io::copy(&mut reader, &mut std::io::sink()).expect("a body"), size);
}

// The comparison.

fn write_file(path: &Path, size: u64) {
    let mut file = File::create(path).expect("a file");
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut block = vec![0; MIB as usize];
    for _ in 0..size / MIB {
        for word in block.chunks_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        file.write_all(&block).expect("room on the disk");
    }
    file.sync_all().expect("a disk");
}

/// Runs a command of the shell; returns seconds and its output.
fn shell(command: &str, arguments: &[&Path]) -> (f64, String) {
    let begun = Instant::now();
    let output = Command::new("sh").args(["-c", command, "sh"]).args(arguments).output().expect("a shell");
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    (begun.elapsed().as_secs_f64(), String::from_utf8_lossy(&output.stdout).into_owned())
}

fn measure(home: &Path, storage: Option<String>, mib: u64, at_once: usize) -> bool {
    let (file, copy, size) = (home.join("file"), home.join("copy"), mib * MIB);
    write_file(&file, size);
    let (unflushed, text) = shell("cp \"$1\" \"$2\" && sha256sum \"$2\"", &[&file, &copy]);
    let sum = text.split(' ').next().expect("a sum").to_owned();
    shell("rm \"$1\"; sync", &[&copy]);
    let (flushed, _) = shell("cp \"$1\" \"$2\" && sync \"$2\" && sha256sum \"$2\"", &[&file, &copy]);
    shell("rm \"$1\"; sync", &[&copy]);
    let speed = |files: usize, seconds: f64| (files as u64 * mib) as f64 / seconds;
    println!("{mib} MiB; cp + sha256sum: {:.0} MiB/s; with sync: {:.0} MiB/s", speed(1, unflushed), speed(1, flushed));
    let directory = home.join("artifacts");
    let server = Server::start(&storage.unwrap_or_else(|| directory.to_string_lossy().into_owned()));
    let mut good = true;
    for clients in [1, at_once] {
        let name = |number: usize| format!("file-{number}");
        let sent = server.run(clients, |address, number| send(address, &name(number), &file, &sum));
        let fetched = server.run(clients, |address, number| fetch(address, &name(number), size));
        let memory_max = if clients == 1 { MEMORY_MIB_MAX_ONE } else { MEMORY_MIB_MAX_EIGHT };
        for (what, Run { seconds, memory_mib, own_mib }) in [("up", sent), ("down", fetched)] {
            let ratio = speed(clients, seconds) / speed(1, unflushed);
            let met = ratio >= RATIO_MIN && memory_mib <= memory_max;
            good &= met;
            println!(
                "{clients} {what}: {:.0} MiB/s, {ratio:.2} of cp + sha256sum ({:.2} with sync), {memory_mib} MiB over idle ({own_mib} its own): {}",
                speed(clients, seconds),
                speed(clients, seconds) / speed(1, flushed),
                if met { "met" } else { "MISSED" }
            );
        }
    }
    good
}
