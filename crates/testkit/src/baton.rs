//! The real `baton` program as a process.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use crate::Process;

/// How long a server may take until it is ready.
const READY_PATIENCE: Duration = Duration::from_secs(30);
/// How long a server may take to end after it was asked to.
const STOP_PATIENCE: Duration = Duration::from_secs(30);

/// A `baton serve` on a port of its own.
#[derive(Debug)]
pub struct Baton {
    process: Process,
    port: u16,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Baton {
    /// Path of the program: from cargo or nextest when they tell, else next to the running test.
    ///
    /// # Panics
    /// When it has not been built.
    pub fn program() -> PathBuf {
        let told = ["CARGO_BIN_EXE_baton", "NEXTEST_BIN_EXE_baton"].into_iter().find_map(std::env::var_os);
        let program = told.map(PathBuf::from).unwrap_or_else(|| {
            let test = std::env::current_exe().expect("a running program has a path");
            // target/debug/deps/test-0123 stands one directory below target/debug/baton.
            test.ancestors().nth(2).map(|profile| profile.join("baton")).unwrap_or_default()
        });
        assert!(program.is_file(), "{} is not there: run `cargo build -p baton-cli` first", program.display());
        program
    }

    /// Starts `baton serve` with these arguments (all but `--listen`) and environment, and waits until it is ready.
    pub async fn serve(arguments: &[&str], environment: &[(&str, &str)]) -> Baton {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let environment = environment.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        Baton::serve_on(crate::free_port(), arguments, environment).await
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The process, to be frozen, read or killed.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// `kill -9`.
    pub fn kill9(&mut self) {
        self.process.sigkill();
    }

    /// Asks it to end, and waits until it has.
    pub async fn stop(&mut self) -> ExitStatus {
        self.process.sigterm_and_wait(STOP_PATIENCE).await
    }

    /// Starts it again with the same arguments on the same port; kills it first if it still runs.
    pub async fn restart(&mut self) {
        self.kill9();
        *self = Baton::serve_on(self.port, self.arguments.clone(), self.environment.clone()).await;
    }

    /// As `restart`, with variables of the environment that are set anew, or not at all.
    pub async fn restart_with(&mut self, variables: &[(&str, Option<&str>)]) {
        self.environment.retain(|(name, _)| variables.iter().all(|(changed, _)| changed != name));
        let set = variables.iter().filter_map(|(name, value)| Some(((*name).to_owned(), (*value)?.to_owned())));
        self.environment.extend(set);
        self.restart().await;
    }

    async fn serve_on(port: u16, arguments: Vec<String>, environment: Vec<(String, String)>) -> Baton {
        let listen = ["serve".to_owned(), "--listen".to_owned(), format!("127.0.0.1:{port}")];
        let process = Process::spawn(Baton::program(), listen.iter().chain(&arguments), environment.iter().cloned());
        let mut baton = Baton { process, port, arguments, environment };
        let until = Instant::now() + READY_PATIENCE;
        while !is_ready(port).await {
            let ended = baton.process.ended();
            assert!(ended.is_none(), "baton ended with {ended:?}; it printed:\n{}", baton.process.output());
            assert!(Instant::now() < until, "baton is not ready; it printed:\n{}", baton.process.output());
            sleep(Duration::from_millis(10)).await;
        }
        baton
    }
}

async fn is_ready(port: u16) -> bool {
    let ask = async {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).await?;
        socket.write_all(b"GET /readyz HTTP/1.1\r\nhost: baton\r\nconnection: close\r\n\r\n").await?;
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    matches!(timeout(Duration::from_secs(2), ask).await, Ok(Ok(answer)) if answer.starts_with(b"HTTP/1.1 200"))
}
