//! Words for builds.

use baton_core::{RunId, WorkerId};
use baton_store::{
    ArtifactOwner, BuildSource, LeaseRef, LogAnswer, LogLine, LogRecord, NewArtifact, NewBuild, NewRun, Submitted,
};
use uuid::Uuid;

use crate::rig::{Rig, dice, lease};

/// Room for every log that a case writes.
pub const ROOM: u64 = 1 << 40;
/// What all files of the cases look like to the store.
pub const SIZE: u64 = 1_000;
pub const SHA256: [u8; 32] = [7; 32];

impl Rig {
    /// A file that is all there.
    pub async fn file(&self, owner: ArtifactOwner) -> Uuid {
        let id = self.begun_file(owner).await;
        assert!(self.store.artifact_stored(id, SIZE, SHA256).await.unwrap());
        id
    }

    /// A file that is being written.
    pub async fn begun_file(&self, owner: ArtifactOwner) -> Uuid {
        let artifact = new_file(owner);
        let id = artifact.id;
        assert!(self.store.add_artifact(artifact).await.unwrap());
        id
    }

    /// Submits a build of a new file.
    pub async fn build(&self, run: NewRun) -> (RunId, Uuid) {
        let source = self.file(ArtifactOwner::Source).await;
        (self.submit_build(run, build_of(source, None)).await.run, source)
    }

    pub async fn submit_build(&self, run: NewRun, build: NewBuild) -> Submitted {
        self.store.submit_build(run, dice(), build, None).await.unwrap().unwrap()
    }

    /// A build that a new worker holds.
    pub async fn held_build(&self, run: NewRun) -> (WorkerId, LeaseRef) {
        let (lane, (id, _)) = (run.lane, self.build(run).await);
        let worker = self.worker("builder").await;
        let claimed = self.claim(worker, lane, 1).await;
        assert_eq!(claimed.iter().map(|claimed| claimed.run).collect::<Vec<_>>(), [id], "another run was in the way");
        (worker, lease(&claimed[0]))
    }

    /// Says one line for each message.
    pub async fn say(&self, run: RunId, lease: Option<LeaseRef>, messages: &[&str]) -> LogAnswer {
        self.store.add_logs(run, lease, None, lines(messages), ROOM).await.unwrap()
    }

    /// The whole log, read page by page.
    pub async fn log(&self, run: RunId, page: usize) -> Vec<LogRecord> {
        let (mut all, mut after) = (Vec::new(), 0);
        loop {
            let mut some = self.store.logs(run, after, page).await.unwrap();
            assert!(some.len() <= page);
            match some.last() {
                Some(last) => after = last.number,
                None => return all,
            }
            all.append(&mut some);
        }
    }

    /// What is given up now, by identifier.
    pub async fn orphan_ids(&self, age_ms: i64) -> Vec<Uuid> {
        self.store.orphans(age_ms, 1_000).await.unwrap().iter().map(|artifact| artifact.id).collect()
    }
}

pub fn lines(messages: &[&str]) -> Vec<LogLine> {
    let line = |message: &&str| LogLine { level: "info".into(), message: (*message).into(), at: None };
    messages.iter().map(line).collect()
}

pub fn uuid() -> Uuid {
    Uuid::from_u64_pair(dice(), dice())
}

pub fn new_file(owner: ArtifactOwner) -> NewArtifact {
    let id = uuid();
    NewArtifact { id, namespace: "default".into(), owner, name: "app.zip".into(), path: format!("files/{id}") }
}

pub fn build_of(source: Uuid, certs: Option<Uuid>) -> NewBuild {
    NewBuild {
        namespace: "default".into(),
        platform: "ios".into(),
        project: None,
        key_id: None,
        source: BuildSource::Files { source, certs },
        base_image: None,
    }
}

pub fn git_build(namespace: &str) -> NewBuild {
    NewBuild {
        namespace: namespace.into(),
        platform: "linux".into(),
        project: Some("shop".into()),
        key_id: Some("key-1".into()),
        source: BuildSource::Git {
            slug: "shop".into(),
            version: "1.2.3".into(),
            url: "https://example.org/shop.git".into(),
            reference: "main".into(),
            image: "rust:1".into(),
        },
        base_image: Some("macos-15".into()),
    }
}
