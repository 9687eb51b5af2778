//! What a build gets besides its source, and what is known of it afterwards.

use std::fs::{self, File};
use std::path::Path;

use baton::proto::BuildStatus;
use baton_archive::PackOptions;

use super::{PLATFORM, Yard, entries};
use crate::on_both_stores;
use crate::site::{Leases, Store};
use crate::wait::eventually;

const SECRET: &str = "the-private-key-of-a-shop";

/// Every file below a directory.
fn files_below(directory: &Path) -> Vec<std::path::PathBuf> {
    let (directories, mut files): (Vec<_>, Vec<_>) = entries(directory).into_iter().partition(|path| path.is_dir());
    files.extend(directories.iter().flat_map(|inner| files_below(inner)));
    files
}

fn holds(path: &Path, bytes: &[u8]) -> bool {
    fs::read(path).is_ok_and(|content| content.windows(bytes.len()).any(|window| window == bytes))
}

async fn certificates_are_in_its_home_and_nowhere_afterwards(store: Store) {
    let yard = Yard::new(store, Leases::LONG).await;
    fs::create_dir(yard.path("certs")).unwrap();
    yard.write("certs/identity.p12", SECRET);
    yard.write("certs/password.txt", "");
    let packed = File::create(yard.path("certs.zip")).unwrap();
    baton_archive::pack(&yard.path("certs"), packed, &PackOptions::default(), |_| {}).unwrap();
    let zip = fs::read(yard.path("certs.zip")).unwrap();

    let recipe = "ls -l \"$HOME/certs.zip\" | cut -c1-10; cp \"$HOME/certs.zip\" \"$BATON_OUTPUT_DIR/seen.zip\"; \
        [ -z \"$(find . -name '*.zip')\" ]";
    let worker = yard.worker("one", &["--recipe", recipe]);
    let said = yard.submit(&["--certs", "../certs.zip"]).await;
    assert_eq!(said.code, Some(0), "{said:?}; the worker: {}", worker.output());
    assert_eq!(fs::read(yard.path("desk/seen.zip")).unwrap(), zip, "what it saw is what was submitted");
    assert!(said.out.contains("-rw-------\n"), "nobody else may read it: {said:?}");
    assert!(!said.out.contains(SECRET) && !worker.output().contains(SECRET));

    // The worker has kept nothing of it, and its cache only the source.
    yard.wait_until_tidy("one").await;
    assert_eq!(entries(&yard.path("one/cache")).len(), 1);
    let kept = files_below(&yard.path("one"));
    assert!(!kept.iter().any(|path| holds(path, &zip)), "{kept:?}");
    // What the server keeps of them is sealed; only the result, which is a copy of them, is not.
    let stored = files_below(&yard.path("data"));
    assert_eq!(stored.iter().filter(|path| holds(path, &zip)).count(), 1, "{stored:?}");
    // And it has written down who read them.
    let audit = yard.baton(&["audit", "list"]).await;
    assert_eq!(audit.out.matches("certs.read").count(), 1, "{audit:?}");

    // In the project they are no source: this recipe fails where it finds a zip.
    fs::copy(yard.path("certs.zip"), yard.path("project/certs.zip")).unwrap();
    let inside = yard.submit(&["--certs", "../desk/../project/certs.zip"]).await;
    assert_eq!(inside.code, Some(0), "{inside:?}");
    assert!(inside.err.contains("-- left out, as certificates or results of builds: certs.zip\n"), "{inside:?}");
    fs::remove_file(yard.path("project/certs.zip")).unwrap();
    let wrong = yard.submit(&["--certs", "../project/greeting.txt"]).await;
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.err.contains("--certs ../project/greeting.txt: ") && !wrong.err.contains("packed"), "{wrong:?}");

    // Without any, there are none.
    let none = yard.submit(&[]).await;
    assert!(none.code == Some(1) && none.out.contains("certs.zip"), "{none:?}");
}

async fn what_was_measured_can_be_read_afterwards(store: Store) {
    let yard = Yard::new(store, Leases::LONG).await;
    let gate = yard.site.gate();
    let worker = yard.worker("one", &["--recipe", &gate.command()]);
    let (id, client) = (yard.submit_detached().await, yard.client());
    // It is not so quick that nothing can be measured.
    eventually("a measurement", async || {
        client.build_telemetry(&id).await.ok().filter(|measured| !measured.telemetry.is_empty())
    })
    .await;
    gate.open();
    yard.wait_for(&id, BuildStatus::Completed).await;
    let measured = client.build_telemetry(&id).await.unwrap().telemetry;
    assert!(!measured.is_empty());
    for one in measured {
        // A system without /proc has no figures to give.
        if cfg!(target_os = "linux") {
            assert!(one.cpu.is_some_and(|share| (0.0..=1.0).contains(&share)), "{one:?}");
            assert!(one.memory.is_some_and(|share| share > 0.0 && share <= 1.0), "{one:?}");
        }
    }
    // Nobody takes the next one, so nothing is measured of it.
    drop(worker);
    let foreign = yard.baton(&["submit", "../project", "--platform", PLATFORM, "--detach"]).await;
    assert_eq!(client.build_telemetry(foreign.out.trim()).await.unwrap().telemetry.len(), 0, "each has its own");
}

on_both_stores!(certificates_are_in_its_home_and_nowhere_afterwards, what_was_measured_can_be_read_afterwards,);
