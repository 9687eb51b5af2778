//! A worker whose disk is full: what it cannot build goes to others.

use std::fs;
use std::path::PathBuf;

use baton::WorkerFilter;
use baton::proto::{BuildStatus, BuildView, WorkerView};
use baton_testkit::Process;

use super::{Yard, text};
use crate::on_both_stores;
use crate::site::{API_KEY, BATON, Leases, Store};
use crate::small_disk::{Ballast, SmallDisk};
use crate::wait::eventually;

/// Longer than a test.
const FOR_LONG: &str = "1h";
/// Bytes that do not become fewer when they are packed.
const LARGE: usize = 10 << 20;

impl Yard {
    /// A worker with all its directories on a disk of 16 MiB.
    fn worker_on_a_small_disk(&self, name: &str, more: &[&str]) -> (Process, SmallDisk) {
        let disk = SmallDisk::at(self.path(name), "16m");
        let environment = [("BATON_URL", self.site.server.url()), ("BATON_API_KEY", API_KEY.to_owned())];
        let environment = environment.map(|(key, value)| (key.to_owned(), value)).to_vec();
        let arguments = self.arguments(name, more);
        (disk.spawn(BATON, arguments.iter().map(String::as_str), environment), disk)
    }

    async fn worker_named(&self, name: &str) -> Option<WorkerView> {
        let page = self.client().workers(&WorkerFilter::default()).await.ok()?;
        page.workers.into_iter().find(|worker| worker.name == name)
    }

    /// Waits until this worker wants no work, and says why.
    async fn refuses_work(&self, name: &str) -> String {
        eventually("a worker that wants no work", async || self.worker_named(name).await?.unfit).await
    }

    async fn waits_again(&self, id: &str) -> BuildView {
        self.wait_for(id, BuildStatus::Pending).await
    }
}

/// Noise, the same each time.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..bytes / 8).flat_map(|_| next().to_le_bytes()).collect()
}

/// Whatever takes the room: the build goes back, this worker takes it no more, and another one builds it.
async fn goes_to_another(store: Store, large_source: bool, recipe: &str) {
    let yard = Yard::new(store, Leases::LONG).await;
    if large_source {
        fs::write(yard.path("project/large"), noise(LARGE)).unwrap();
    }
    let arguments = ["--recipe", recipe, "--full-disk-pause", FOR_LONG, "--concurrency", "2"];
    let (small, disk) = yard.worker_on_a_small_disk("small", &arguments);
    small.wait_for_line("registered", super::PATIENCE).await;
    let id = yard.submit_detached().await;
    let why = yard.refuses_work("small").await;
    assert!(why.contains("the disk of the worker is full"), "{why}");
    yard.waits_again(&id).await;
    let seen = disk.seen_by(&small);
    let left = |part: &str| super::entries(&seen.join(part));
    eventually("room for others", async || left("cache").is_empty().then_some(())).await;

    let _large = yard.worker("large", &["--recipe", recipe]);
    let build = yard.wait_for(&id, BuildStatus::Completed).await;
    let large = yard.worker_named("large").await.unwrap();
    assert_eq!(build.worker_id.as_deref(), Some(large.id.as_str()), "{build:?}; {}", small.output());
    let history = yard.client().history(&id).await.unwrap().events;
    let ends = history.iter().filter(|event| event.event == "lease_ended" && event.worker_id != build.worker_id);
    let reasons: Vec<_> = ends.filter_map(|end| end.reason.as_deref()).collect();
    // Once more when it came with a claim that was waiting already; never again after that.
    assert!((1..=2).contains(&reasons.len()) && reasons.iter().all(|reason| *reason == "given_back"), "{history:?}");
    let log = yard.baton(&["build", "logs", &id]).await;
    assert!(log.out.contains("given back: the disk of the worker is full: "), "{log:?}");
}

async fn a_build_whose_output_fills_the_disk_goes_to_another_worker(store: Store) {
    let recipe = "dd if=/dev/zero of=\"$BATON_OUTPUT_DIR/app\" bs=1024k count=24";
    goes_to_another(store, false, recipe).await;
}

async fn a_source_that_does_not_fit_unpacked_goes_to_another_worker(store: Store) {
    goes_to_another(store, true, "true").await;
}

async fn a_result_that_does_not_fit_packed_goes_to_another_worker(store: Store) {
    // The source itself leaves room for one more of its size, and not for two.
    let recipe = "cd \"$BATON_OUTPUT_DIR\"; head -c 5M /dev/urandom > a; head -c 5M /dev/urandom > b";
    goes_to_another(store, false, recipe).await;
}

async fn a_worker_with_room_again_builds_again(store: Store) {
    let yard = Yard::new(store, Leases::LONG).await;
    let recipe = "cp greeting.txt \"$BATON_OUTPUT_DIR/app.txt\"";
    let (worker, disk) = yard.worker_on_a_small_disk("one", &["--recipe", recipe, "--full-disk-pause", "200ms"]);
    worker.wait_for_line("registered", super::PATIENCE).await;
    let ballast = Ballast::fill(&disk.seen_by(&worker));
    let id = yard.submit_detached().await;
    eventually("a build that was given back", async || {
        let history = yard.client().history(&id).await.ok()?.events;
        history.iter().any(|event| event.reason.as_deref() == Some("given_back")).then_some(())
    })
    .await;
    ballast.remove();
    let build = yard.wait_for(&id, BuildStatus::Completed).await;
    assert!(build.attempts >= 1, "{build:?}");
    eventually("a worker that wants work", async || yard.worker_named("one").await?.unfit.is_none().then_some(()))
        .await;
    let fetched = yard.baton(&["build", "download", &id]).await;
    assert_eq!((fetched.code, yard.read("desk/app.txt").as_str()), (Some(0), "hello"), "{fetched:?}");
    let left: Vec<PathBuf> = super::entries(&disk.seen_by(&worker).join("work"));
    assert!(left.iter().filter(|path| path.is_dir()).all(|part| super::entries(part).is_empty()), "{left:?}");
}

/// A recipe that fails for another reason fails, on a small disk like on any other.
async fn a_build_that_does_not_work_still_fails(store: Store) {
    let yard = Yard::new(store, Leases::LONG).await;
    let recipe = "echo 'No space left on device'; exit 3";
    let (worker, _disk) = yard.worker_on_a_small_disk("one", &["--recipe", recipe]);
    let said = yard.submit(&[]).await;
    assert_eq!(said.code, Some(1), "{said:?}; the worker: {}", worker.output());
    assert!(said.err.contains("the recipe did not work: exit status: 3"), "{said:?}");
    assert_eq!(yard.worker_named("one").await.unwrap().unfit, None, "{}", text(&yard.path("one")));
}

on_both_stores!(
    a_build_whose_output_fills_the_disk_goes_to_another_worker,
    a_source_that_does_not_fit_unpacked_goes_to_another_worker,
    a_result_that_does_not_fit_packed_goes_to_another_worker,
    a_worker_with_room_again_builds_again,
    a_build_that_does_not_work_still_fails,
);
