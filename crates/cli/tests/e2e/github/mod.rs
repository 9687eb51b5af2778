//! Runners of GitHub, with the real server and its agents; GitHub's API and GitHub's runner are stand-ins.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use baton::Client;
use baton::proto::{ClaimView, CreatePool, NAMESPACE_DEFAULT, OpenClaim};
use baton_core::pools::ClaimState;
use baton_testkit::{Baton, Database, GITHUB_TOKEN, GitHub, GitHubFault};
use tempfile::TempDir;

use crate::site::{self, Leases, Store};
use crate::wait::{PATIENCE, eventually};

const POOL: &str = "gh";
const CRASH_POINT: &str = "BATON_CRASH_POINT";

/// A server with a pool of one warm machine, and GitHub. Dropping it before the pool is deleted leaves agents, which end by themselves after a while.
struct Yard {
    server: Baton,
    client: Client,
    github: GitHub,
    home: TempDir,
    _database: Option<Database>,
}

impl Yard {
    async fn start(store: Store, options: &[(&str, &str)], more: &[(&str, &str)]) -> Yard {
        let database = match store {
            Store::Sqlite => None,
            Store::Postgres => Some(baton_testkit::database().await),
        };
        let home = tempfile::tempdir().expect("a temporary directory");
        let github = GitHub::start();
        let token = home.path().join("token");
        std::fs::write(&token, format!("{GITHUB_TOKEN}\n")).expect("our own directory");
        let settings = [
            ("BATON_GITHUB_URL", github.url.as_str()),
            ("BATON_GITHUB_TOKEN_FILE", token.to_str().expect("temporary paths are text")),
            // However slow the machine is.
            ("BATON_POOL_REGISTER_MS", "60000"),
        ];
        let settings: Vec<_> = settings.into_iter().chain(more.iter().copied()).collect();
        let url = database.as_ref().map(Database::url);
        let server = site::serve_with(home.path(), url, Leases::LONG, &settings).await;
        let client = site::client(&server.url());
        let yard = Yard { server, client, github, home, _database: database };
        yard.make_runner();
        let runner = yard.out("runner").to_string_lossy().into_owned();
        let own = [("agent.github_runner", runner.as_str()), ("agent.unreachable", "1m")];
        let options = own.iter().chain(options).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let options: BTreeMap<_, _> = options.collect();
        let pool = CreatePool { options, min_idle: 1, max_size: Some(3), ..CreatePool::new(POOL) };
        yard.client.create_pool(&pool).await.expect("a good pool");
        yard.idle().await;
        yard
    }

    fn out(&self, name: &str) -> std::path::PathBuf {
        self.home.path().join(name)
    }

    /// Puts the stand-ins of GitHub's scripts where the agents look for them.
    fn make_runner(&self) {
        std::fs::create_dir(self.out("runner")).expect("our own directory");
        for (name, text) in [("run.sh", include_str!("run.sh")), ("config.sh", include_str!("config.sh"))] {
            let path = self.out("runner").join(name);
            let out = self.home.path().to_str().expect("temporary paths are text");
            std::fs::write(&path, text.replace("OUT", out)).expect("our own directory");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("our own file");
        }
    }

    /// Waits until machines wait for claims, and nothing else. There may be two: one that is claimed has another in its place.
    async fn idle(&self) {
        let is_idle = async || {
            let pool = self.client.pool(NAMESPACE_DEFAULT, POOL).await.ok()?;
            let others = ["claimed", "running", "releasing"].iter().all(|state| pool.runners[*state] == 0);
            (pool.runners["idle"] >= 1 && others).then_some(())
        };
        eventually("idle machines", is_idle).await;
    }

    async fn claim(&self, run_id: &str) {
        let claim = OpenClaim::new(run_id, 1);
        self.client.open_pool_claim(NAMESPACE_DEFAULT, POOL, &claim).await.expect("a good claim");
    }

    /// The claim, once it does not wait any more. The server may be away meanwhile.
    async fn settled(&self, run_id: &str) -> ClaimView {
        let look = async || {
            let wait = Duration::from_secs(5);
            let claim = self.client.wait_for_pool_claim(NAMESPACE_DEFAULT, POOL, run_id, wait).await.ok()?;
            (claim.state != ClaimState::Waiting).then_some(claim)
        };
        eventually("the claim is filled", look).await
    }

    async fn release(&self, run_id: &str) {
        self.client.release_pool_claim(NAMESPACE_DEFAULT, POOL, run_id).await.expect("a claim of ours");
    }

    /// What runners were started with, and their processes, once there are so many.
    async fn started(&self, count: usize) -> Vec<(String, String)> {
        let look = async || {
            let text = std::fs::read_to_string(self.out("started")).ok()?;
            let lines: Vec<_> = text.lines().map(|line| line.split_once(' ').expect("two words")).collect();
            let lines = lines.into_iter().map(|(config, pid)| (config.to_owned(), pid.to_owned())).collect::<Vec<_>>();
            (lines.len() >= count).then_some(lines)
        };
        eventually("runners are started", look).await
    }

    /// Deletes the pool, and waits until nothing of it is left.
    async fn end(self) {
        self.client.delete_pool(NAMESPACE_DEFAULT, POOL).await.expect("a pool of ours");
        let is_gone = async || self.client.pool(NAMESPACE_DEFAULT, POOL).await.err().map(drop);
        eventually("the pool is gone", is_gone).await;
    }
}

/// Everything that a process and its environment show to others of the same user.
fn shown(pid: &str) -> String {
    let read = |name: &str| std::fs::read(Path::new("/proc").join(pid).join(name)).unwrap_or_default();
    String::from_utf8_lossy(&[read("cmdline"), read("environ")].concat()).into_owned()
}

async fn gone(pid: &str) {
    let path = format!("/proc/{pid}/cmdline");
    let is_gone = async || std::fs::read(&path).map_or(true, |line| line.is_empty()).then_some(());
    eventually("the end of a runner", is_gone).await;
}

async fn a_run_has_a_runner_at_github_for_one_job_after_another(store: Store) {
    let yard = Yard::start(store, &[("github.repository", "acme/shop")], &[]).await;
    assert_eq!(yard.github.runners(), [], "an idle machine is no runner");
    yard.claim("gh-17").await;
    assert_eq!(yard.settled("gh-17").await.state, ClaimState::Ready);
    let [runner] = &yard.github.runners()[..] else { panic!("{:?}", yard.github.runners()) };
    assert_eq!(runner.labels, ["gh-17"]);
    let (config, pid) = yard.started(1).await.remove(0);
    assert_eq!(config, "jit-config-of-1", "it was started before the claim was filled");
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    assert!(!line.is_empty() && !line.contains("jit-config"), "everybody can read arguments: {line}");
    assert!(!shown(&pid).contains(GITHUB_TOKEN), "the token stays on the server");

    // It does its one job, and GitHub forgets it. The run has the machine still, so there is another.
    yard.github.forget(&runner.name);
    std::fs::write(yard.out("job"), "").unwrap();
    let (config, pid) = yard.started(2).await.remove(1);
    assert_eq!((config.as_str(), yard.github.runners().len()), ("jit-config-of-2", 1));

    yard.release("gh-17").await;
    gone(&pid).await;
    yard.idle().await;
    assert_eq!(yard.github.runners(), []);

    // What GitHub says is beside the claim. The machine is none the worse for it, and is a runner
    // as soon as GitHub lets it.
    let machines =
        async || yard.client.pool_runners(NAMESPACE_DEFAULT, POOL, None, None, None).await.expect("ours").runners;
    let before: Vec<_> = machines().await.into_iter().map(|runner| runner.id).collect();
    yard.github.next(GitHubFault::Answer(403, vec![], "Resource not accessible by integration"));
    yard.claim("gh-18").await;
    let told = async || {
        let claim = yard.client.pool_claim(NAMESPACE_DEFAULT, POOL, "gh-18").await.expect("it was opened");
        claim.detail.starts_with("GitHub answered 403: Resource not accessible by integration;").then_some(())
    };
    eventually("the claim says what it waits for", told).await;
    let claim = yard.settled("gh-18").await;
    assert_eq!((claim.state, claim.discarded), (ClaimState::Ready, 0), "{claim:?}");
    let after: Vec<_> = machines().await.into_iter().map(|runner| runner.id).collect();
    assert!(before.iter().all(|id| after.contains(id)), "{before:?} {after:?}");
    yard.release("gh-18").await;
    yard.idle().await;
    assert_eq!(yard.github.runners(), []);
    yard.end().await;
}

async fn an_old_github_gets_runners_with_tokens(store: Store) {
    let options = [("github.organization", "acme"), ("github.registration", "token")];
    let yard = Yard::start(store, &options, &[]).await;
    yard.claim("gh-1").await;
    assert_eq!(yard.settled("gh-1").await.state, ClaimState::Ready);
    assert_eq!(yard.started(1).await[0].0, "configured");
    let said = std::fs::read_to_string(yard.out("configured")).unwrap();
    for wanted in ["--unattended", "--ephemeral", "--no-default-labels", "--labels gh-1"] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    assert!(
        said.contains(&format!("--url {}/acme", yard.github.url)) && !said.contains("AREGISTRATIONTOKEN"),
        "{said}"
    );
    std::fs::write(yard.out("job"), "").unwrap();
    yard.started(2).await;
    yard.release("gh-1").await;
    yard.idle().await;
    yard.end().await;
}

#[cfg(debug_assertions)]
async fn a_server_that_falls_leaves_one_runner_and_not_two(store: Store) {
    let [(point, _)] = baton_server::crash::GITHUB_POINTS else { panic!("each point has its test") };
    let options = [("github.repository", "acme/shop")];
    let mut yard = Yard::start(store, &options, &[(CRASH_POINT, point)]).await;
    yard.claim("gh-1").await;
    yard.server.process().wait(PATIENCE).await;
    assert_eq!(yard.github.runners().len(), 1, "nobody knows of it");
    yard.server.restart_with(&[(CRASH_POINT, None)]).await;
    assert_eq!(yard.settled("gh-1").await.state, ClaimState::Ready);
    let [runner] = &yard.github.runners()[..] else { panic!("{:?}", yard.github.runners()) };
    assert_eq!(runner.id, 2);
    assert_eq!(yard.started(1).await[0].0, "jit-config-of-2");
    yard.release("gh-1").await;
    yard.idle().await;
    assert_eq!(yard.github.runners(), []);
    yard.end().await;
}

crate::on_both_stores!(
    a_run_has_a_runner_at_github_for_one_job_after_another,
    an_old_github_gets_runners_with_tokens,
    #[cfg(debug_assertions)]
    a_server_that_falls_leaves_one_runner_and_not_two,
);
