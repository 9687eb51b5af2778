//! Others understand the document: a validator finds nothing wrong with it, and a client that was generated from it does what
//! a submitter, a worker and a listener do. `scripts/openapi-tools` installs both.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use crate::harness::{KEY, On, Server};

/// Where `scripts/openapi-tools` puts them.
const PLACE: &str = "openapi-tools-1";
/// What is done with the client.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/http/generated_client.py");

fn tools() -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join(PLACE);
    assert!(place.join("ready").exists(), "no tools in {}: run scripts/openapi-tools", place.display());
    place.join("bin")
}

/// Runs a program to its end, and shows what it said unless that was a good one.
async fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await.unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {said}");
    said
}

/// On one store: what is behind the server makes no difference to the document.
#[tokio::test(flavor = "multi_thread")]
async fn a_generated_client_submits_claims_completes_lists_and_follows_events() {
    let server = Server::start(On::Sqlite).await;
    let (tools, folder) = (tools(), tempfile::tempdir().unwrap());
    let document = folder.path().join("openapi.json");
    std::fs::write(&document, server.client.openapi().await.unwrap()).unwrap();
    run(Command::new(tools.join("openapi-spec-validator")).arg(&document)).await;
    let generate = ["generate", "--meta", "none", "--path"];
    let mut generator = Command::new(tools.join("openapi-python-client"));
    let package = folder.path().join("baton_client");
    // It looks for the formatter beside itself.
    let path = std::env::join_paths([tools.clone(), PathBuf::from("/usr/bin"), PathBuf::from("/bin")]).unwrap();
    run(generator.env("PATH", path).args(generate).arg(&document).arg("--output-path").arg(&package)).await;
    let mut script = Command::new(tools.join("python"));
    script.env("PYTHONPATH", folder.path()).env("PYTHONDONTWRITEBYTECODE", "1");
    let said = run(script.arg(SCRIPT).arg(format!("http://{}", server.address)).arg(KEY)).await;
    assert!(said.contains("completed as wanted"), "{said}");
}
