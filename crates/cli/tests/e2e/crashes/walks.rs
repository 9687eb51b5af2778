//! The stories, and the points that the server comes to in each of their acts.

use super::yard::{Storage, Submitted, Yard};
use super::{expo, git, pieces};

/// What clients do.
#[derive(Clone, Copy, Debug)]
pub enum Story {
    /// Source, certificates and result as bodies of calls.
    Expo,
    /// Source and result as uploads in pieces.
    Pieces,
    /// A repository, and a builder with nothing but a key.
    Git,
}

/// A part of a story.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    Submit,
    Build,
    /// The server is alone, and tidies up.
    Collect,
}

const COLLECT: &[&str] = &["collect.doomed", "collect.deleted", "collect.forgotten", "sweep.drafts"];
/// How a file that comes as a body gets into a directory, and into a bucket.
const INTO_A_DIRECTORY: &[&str] = &["file.noted", "draft.part", "draft.synced", "draft.renamed", "file.stored"];
const INTO_A_BUCKET: &[&str] =
    &["file.noted", "multipart.begun", "multipart.noted", "multipart.part", "multipart.completed", "file.stored"];
/// How an upload in pieces becomes a file.
const UPLOADED: &[&str] = &["file.noted", "upload.moved", "file.stored", "upload.forgotten"];

impl Story {
    /// The points on its way.
    pub fn walks(self, storage: Storage) -> Vec<(Act, &'static str)> {
        let (submit, build, collect): (Vec<&[&str]>, Vec<&[&str]>, &[&str]) = match (self, storage) {
            (Story::Expo, Storage::Directory) => (
                vec![&["submit.begun"], INTO_A_DIRECTORY, &["submit.written", "file.removed"]],
                vec![
                    &["register.made", "register.named", "poll.rotated", "poll.claimed"],
                    &[
                        "download.begun",
                        "download.part",
                        "logs.written",
                        "result.begun",
                        "result.drafted",
                        "result.bound",
                    ],
                    INTO_A_DIRECTORY,
                    &["complete.begun", "complete.written", "complete.counted"],
                ],
                COLLECT,
            ),
            (Story::Expo, Storage::Bucket) => {
                (vec![INTO_A_BUCKET], vec![INTO_A_BUCKET, &["complete.begun", "complete.written"]], COLLECT)
            }
            (Story::Pieces, Storage::Directory) => (
                vec![
                    &["upload.created", "upload.part", "upload.committed", "upload.counted"],
                    &["draft.synced", "draft.renamed"],
                    UPLOADED,
                    &["submit.written"],
                ],
                vec![UPLOADED, &["complete.begun", "complete.written"]],
                &[],
            ),
            (Story::Pieces, Storage::Bucket) => (
                vec![
                    &["upload.part", "upload.committed", "upload.counted"],
                    &["multipart.noted", "multipart.part", "multipart.completed"],
                    UPLOADED,
                ],
                vec![UPLOADED, &["complete.begun"]],
                &[],
            ),
            (Story::Expo, Storage::Mirrored) => (vec![&["mirror.half"]], vec![&["mirror.half"]], &["mirror.deleted"]),
            (Story::Pieces, Storage::Mirrored) => (vec![&["mirror.half", "upload.committed"]], vec![], &[]),
            (Story::Git, Storage::Directory | Storage::Bucket | Storage::Mirrored) => (
                vec![&["submit.written"]],
                vec![&["git.claimed", "logs.written", "complete.begun", "complete.written"]],
                &[],
            ),
        };
        let acts = [(Act::Submit, submit.concat()), (Act::Build, build.concat()), (Act::Collect, collect.to_vec())];
        acts.into_iter().flat_map(|(act, names)| names.into_iter().map(move |name| (act, name))).collect()
    }

    pub async fn submit(self, yard: &mut Yard) -> Submitted {
        match self {
            Story::Expo => expo::submit(yard).await,
            Story::Pieces => pieces::submit(yard).await,
            Story::Git => git::submit(yard).await,
        }
    }

    pub async fn build(self, yard: &mut Yard, submitted: Submitted) {
        match self {
            Story::Expo => expo::build(yard, submitted).await,
            Story::Pieces => pieces::build(yard, submitted).await,
            Story::Git => git::build(yard, submitted).await,
        }
    }
}
