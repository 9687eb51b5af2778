//! TLS with the real program: a certificate of its own, commands, workers and agents that trust it, and
//! a proxy in front.

mod nginx;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use baton_testkit::{Authority, Process};
use tempfile::TempDir;

use crate::commands::{Said, baton};
use crate::site::BATON;
use crate::wait::{PATIENCE, eventually};
use nginx::Nginx;

/// A server with its data directory.
struct Site {
    process: Process,
    home: TempDir,
    url: String,
}

impl Site {
    async fn start(more: &[&str]) -> Site {
        Site::start_in(tempfile::tempdir().unwrap(), more).await
    }

    async fn start_in(home: TempDir, more: &[&str]) -> Site {
        let data = home.path().join("data");
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()];
        let none: [(&str, &str); 0] = [];
        let process = Process::spawn(BATON, arguments.into_iter().chain(more.iter().copied()), none);
        let address = data.join("server.addr");
        let left = eventually("the server's address", async || std::fs::read_to_string(&address).ok()).await;
        let url = if left.starts_with("https://") { left } else { format!("http://{left}") };
        let site = Site { process, home, url };
        eventually("an answer", async || (site.baton(&["queue", "list"]).await.code == 0).then_some(())).await;
        site
    }

    fn data(&self) -> PathBuf {
        self.home.path().join("data")
    }

    /// A command on the server's own machine, without any flags.
    async fn baton(&self, arguments: &[&str]) -> Said {
        let data = self.data();
        baton(self.home.path(), [("BATON_DATA", data.to_str().unwrap())], arguments, "").await
    }

    fn key(&self) -> String {
        std::fs::read_to_string(self.data().join("admin.key")).unwrap().trim().to_owned()
    }

    fn pin(&self) -> String {
        std::fs::read_to_string(self.data().join("server.pin")).unwrap().trim().to_owned()
    }

    /// A command somewhere else, which has an address and a key, and these variables.
    async fn elsewhere(&self, url: &str, variables: &[(&str, &str)], arguments: &[&str]) -> Said {
        let key = self.key();
        let variables = [("BATON_URL", url), ("BATON_API_KEY", &key)].into_iter().chain(variables.iter().copied());
        baton(Path::new("/"), variables, arguments, "").await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_a_certificate_of_its_own_is_found_and_trusted() {
    let mut site = Site::start(&["--tls", "self-signed"]).await;
    assert!(site.url.starts_with("https://127.0.0.1:"), "{}", site.url);
    let pin = site.pin();
    let said = site.process.output();
    assert!(said.contains(&format!("--tls-pin {pin}")) && said.contains("listens on https://"), "{said}");
    let key = site.data().join("tls/self-signed.key");
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);

    // On its own machine nobody has to say anything; a worker works, and gRPC goes the same way.
    let data = site.data();
    let worker = ["worker", "run", "--queue", "q", "--type", "t", "--exec", "echo done"];
    let _worker = Process::spawn(BATON, worker, [("BATON_DATA", data.to_str().unwrap())]);
    let output = site.baton(&["run", "submit", "t", "--queue", "q", "--wait"]).await.ok();
    assert!(output.contains("done"), "{output}");
    site.baton(&["workflow", "start", "w", "--queue", "w"]).await.ok();
    let doctor = site.baton(&["doctor"]).await.ok();
    assert!(doctor.contains("TLS certificate") && !doctor.contains("FAIL"), "{doctor}");

    // Elsewhere the fingerprint has to be known.
    let list = ["queue", "list"];
    site.elsewhere(&site.url, &[("BATON_TLS_PIN", &pin)], &list).await.ok();
    let begun = Instant::now();
    let wrong = format!("sha256:{}", "0".repeat(64));
    let refused = [
        site.elsewhere(&site.url, &[], &list).await,
        site.elsewhere(&site.url, &[("BATON_TLS_PIN", &wrong)], &list).await,
        site.elsewhere(&site.url, &[], &["run", "submit", "t", "--wait"]).await,
        site.elsewhere(&site.url, &[], &["workflow", "start", "w"]).await,
    ];
    for said in refused {
        assert!(said.code == 5 && said.err.contains(&pin), "{said:?}");
    }
    let plain = site.elsewhere(&site.url.replace("https", "http"), &[], &list).await;
    assert!(plain.code == 4 && plain.err.contains("use https://"), "{plain:?}");
    assert!(begun.elapsed() < Duration::from_secs(30), "refusals took {:?}", begun.elapsed());
    let bad = site.elsewhere(&site.url, &[("BATON_TLS_PIN", "md5:1")], &list).await;
    assert!(bad.code == 2 && bad.err.contains("sha256:"), "{bad:?}");

    // The next start has the same certificate.
    assert_eq!(site.process.sigterm_and_wait(PATIENCE).await.code(), Some(0));
    assert!(!site.data().join("server.pin").exists());
    let Site { home, .. } = site;
    let site = Site::start_in(home, &["--tls", "self-signed"]).await;
    assert_eq!(site.pin(), pin);
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_of_a_local_pool_join_over_tls() {
    let site = Site::start(&["--tls", "self-signed"]).await;
    site.baton(&["pool", "create", "here", "--provider", "local", "--min-idle", "1", "--max-size", "1"]).await.ok();
    eventually("an idle machine", async || {
        let said = site.baton(&["pool", "runners", "here", "--json"]).await.ok();
        said.contains("\"idle\"").then_some(())
    })
    .await;
    site.baton(&["pool", "delete", "here", "--force"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_certificate_gets_in_where_one_is_required() {
    let (authority, files) = (Authority::new(), tempfile::tempdir().unwrap());
    let (certificate, key) = authority.server(&["baton.example", "127.0.0.1"]).write(files.path(), "server");
    let (client, client_key) = authority.client("ci", None, &[]).write(files.path(), "client");
    let ca = files.path().join("ca.pem");
    std::fs::write(&ca, authority.pem()).unwrap();
    let [certificate, key, client, client_key, ca] =
        [&certificate, &key, &client, &client_key, &ca].map(|path| path.to_str().unwrap());
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    let none: [(&str, &str); 0] = [];
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap(), "--tls-cert", certificate];
    let more = ["--tls-key", key, "--tls-client-ca", ca, "--tls-client-auth", "required"];
    let _server = Process::spawn(BATON, arguments.into_iter().chain(more), none);
    let own = [("BATON_DATA", data.to_str().unwrap())];
    let flags = ["--client-cert", client, "--client-key", client_key];
    let list: Vec<&str> = ["queue", "list"].into_iter().chain(flags).collect();
    eventually("an answer", async || (baton(home.path(), own, &list, "").await.code == 0).then_some(())).await;
    let without = baton(home.path(), own, &["queue", "list"], "").await;
    assert!(without.code == 5 && without.err.contains("wants a client certificate"), "{without:?}");
    let half = baton(home.path(), own, &["queue", "list", "--client-cert", client], "").await;
    assert!(half.code == 2 && half.err.contains("--client-key"), "{half:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn listening_beyond_this_machine_without_tls_is_warned_of_once() {
    let start = async |more: &[&str]| {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("data");
        let arguments = ["serve", "--listen", "0.0.0.0:0", "--data", data.to_str().unwrap()];
        let none: [(&str, &str); 0] = [];
        let mut process = Process::spawn(BATON, arguments.into_iter().chain(more.iter().copied()), none);
        process.wait_for_line("Baton listens on", PATIENCE).await;
        process.sigterm_and_wait(PATIENCE).await;
        process.output().matches("without TLS").count()
    };
    assert_eq!(start(&[]).await, 1);
    assert_eq!(start(&["--insecure-listen"]).await, 0);
    assert_eq!(start(&["--tls", "self-signed"]).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_goes_through_a_proxy_that_speaks_tls() {
    let site = Site::start(&[]).await;
    let authority = Authority::new();
    let ca = site.home.path().join("ca.pem");
    std::fs::write(&ca, authority.pem()).unwrap();
    let nginx = Nginx::before(&site.url, &authority.server(&["localhost", "127.0.0.1"])).await;
    let trust = [("BATON_CA", ca.to_str().unwrap())];
    let key = site.key();
    let variables = [("BATON_URL", nginx.url()), ("BATON_API_KEY", key.as_str())].into_iter().chain(trust);
    let worker = ["worker", "run", "--queue", "q", "--type", "t", "--exec", "echo done"];
    let _worker = Process::spawn(BATON, worker, variables);
    let done = site.elsewhere(nginx.url(), &trust, &["run", "submit", "t", "--queue", "q", "--wait"]).await.ok();
    assert!(done.contains("done"), "{done}");

    // gRPC: a worker's stream, and calls.
    let tls = baton::Tls::new().ca_file(&ca).unwrap();
    let mut worker = baton::Worker::builder(nginx.url(), "w").api_key(&key).tls(tls.clone()).build().await.unwrap();
    worker.register("double", async |_: baton::Context, n: u64| Ok::<_, baton::WorkflowError>(2 * n));
    let working = tokio::spawn(worker.run_until(std::future::pending()));
    let client = baton::Client::connect(nginx.url()).api_key(&key).tls(tls).await.unwrap();
    let handle = client.start("double", &21).queue("w").await.unwrap();
    let doubled = tokio::time::timeout(PATIENCE, handle.result::<u64>()).await.unwrap().unwrap();
    assert_eq!(doubled, 42);
    working.abort();

    let untrusted = site.elsewhere(nginx.url(), &[], &["queue", "list"]).await;
    assert!(untrusted.code == 5 && untrusted.err.contains("--ca FILE"), "{untrusted:?}");
}
