//! Builds from a repository, with their logs and what was measured.

use baton_core::RunId;
use baton_store::{BuildSource, Due, LaneName, LeaseRef, LogLine, NewBuild, NewMeasurement, NewRun};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::crew::Crew;

/// Room for logs.
const ROOM: u64 = 64 << 20;
/// Measurements that are kept.
const MEASURED: usize = 1_000;

/// A build that a worker holds.
#[derive(Clone, Debug)]
pub struct Build {
    pub run: RunId,
    pub lease: LeaseRef,
    pub token: String,
    pub hand: usize,
}

impl Crew<'_> {
    /// A build that waits.
    pub async fn build(&self, platform: &str, project: &str, version: &str) -> RunId {
        let name = LaneName { namespace: "default".into(), queue: "builds".into(), kind: platform.into() };
        let lane = self.site.app.lanes.get(vec![name]).await.expect("a lane is made")[0];
        let run = NewRun {
            lane,
            priority: 5,
            due: Due::Now,
            key: Some(project.into()),
            affinity: None,
            idempotency: None,
            options: None,
            retry_of: None,
            trace: None,
            input: json!({ "platform": platform }).to_string().into(),
        };
        let build = NewBuild {
            namespace: "default".into(),
            platform: platform.into(),
            project: Some(project.into()),
            key_id: None,
            source: BuildSource::Git {
                slug: project.into(),
                version: version.into(),
                url: format!("https://git.shop.internal/{project}.git"),
                reference: "main".into(),
                image: format!("registry.shop.internal/{platform}-builder:16"),
            },
            base_image: None,
        };
        let die = self.site.clock.local() as u64 ^ 0x5eed;
        let made = self.site.app.store.submit_build(run, die, build, None).await.expect("the store answers");
        made.expect("a build is taken").run
    }

    /// A worker takes the build that waits.
    pub async fn take_build(&mut self, hand: usize) -> Build {
        let (run, token) = self.take(hand).await;
        let run: RunId = run.parse().expect("a run has an identifier");
        let record = self.site.app.store.run(run).await.expect("the store answers").expect("the run is there");
        Build { run, lease: LeaseRef { run, epoch: record.epoch }, token, hand }
    }

    /// Lines of its log.
    pub async fn say(&self, build: &Build, lines: impl IntoIterator<Item = String>) {
        let line = |message: String| {
            let level = if message.starts_with("error") { "error" } else { "info" };
            LogLine { level: level.into(), message, at: None }
        };
        let lines = lines.into_iter().map(line).collect();
        let store = &self.site.app.store;
        store.add_logs(build.run, Some(build.lease), None, lines, ROOM).await.expect("the store writes");
    }

    /// What its machine measured.
    pub async fn measure(&mut self, build: &Build) {
        let (cpu, memory) = (0.55 + self.die(45) as f64 / 100.0, 0.4 + self.die(20) as f64 / 100.0);
        let new = NewMeasurement { cpu: Some(cpu), memory: Some(memory), memory_mb: Some(memory * 16_384.0) };
        self.site.app.store.add_measured(build.lease, new, MEASURED).await.expect("the store writes");
    }

    /// A log as a build tool writes it, with time between its lines.
    pub async fn compile(&mut self, build: &Build, from: usize, to: usize) {
        for number in from..to {
            if number % 12 == 0 {
                let module = MODULES[number / 12 % MODULES.len()];
                self.say(build, [format!("::group::Compile {module}")]).await;
            }
            let (module, file) = (MODULES[number / 12 % MODULES.len()], FILES[number % FILES.len()]);
            let line = match number % 29 {
                7 => format!(
                    "\u{1b}[33mwarning:\u{1b}[0m {module}/{file}.swift:{}: variable 'cart' was never mutated; \
                     consider changing to 'let' constant",
                    number * 3 % 400 + 1
                ),
                _ => format!("[{}/{to}] Compiling {module} {file}.swift", number + 1),
            };
            self.say(build, [line]).await;
            if number % 12 == 11 {
                self.say(build, ["::endgroup::".to_owned()]).await;
            }
            self.pass(700).await;
            if number % 7 == 0 {
                self.measure(build).await;
            }
        }
    }

    /// The file that came out.
    pub async fn deliver(&mut self, build: &Build, name: &str, bytes: usize) {
        use std::io::Write;
        let mut file = tempfile::tempfile().expect("a file");
        let content: Vec<u8> = (0..bytes).map(|number| (number * 31 % 251) as u8).collect();
        file.write_all(&content).expect("the file is written");
        let sum: String = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
        let file = baton::FileToSend::new(file, name).expect("a file has a size");
        let run = build.run.to_string();
        let sent = self.site.client.complete_build(&run, &build.token, &file, &sum, std::sync::Arc::new(|_| {})).await;
        sent.expect("the build completes");
        self.drop_taken(build.hand, &run);
    }

    /// It ends without one.
    pub async fn fail_build(&mut self, build: &Build, error: &str) {
        let failed = crate::crew::from(
            json!({ "lease": build.token, "error": error, "code": "exit_status", "retryable": false }),
        );
        self.site.client.fail(&build.run.to_string(), &failed).await.expect("the build fails");
        self.drop_taken(build.hand, &build.run.to_string());
    }
}

const MODULES: [&str; 6] = ["Catalogue", "Checkout", "Payments", "Search", "Account", "App"];
const FILES: [&str; 9] = [
    "CartView",
    "PriceFormatter",
    "RefundService",
    "OrderStore",
    "ProductCell",
    "ImageCache",
    "AddressForm",
    "SessionToken",
    "AppDelegate",
];
