//! The mark of a storage: a file that says which storage this is. The store remembers the mark of
//! the one that has its files, so that a server with another storage, such as a directory of its
//! own, neither writes files that other servers do not find nor takes theirs for lost.

use bytes::Bytes;

use super::error::StorageError;
use super::mirrored::read_small;
use super::path::ArtifactPath;
use super::place::Place;
use super::{ROLES, Storage};

/// What a storage is known by.
pub type Mark = [u8; 16];

impl Storage {
    /// The mark of this storage. One that has none gets that of its mirror, or `fresh`; so does a
    /// mirror. Two with different marks belong to two installations, and keep them.
    pub async fn mark(&self, fresh: Mark) -> Result<Mark, StorageError> {
        let mut marks = Vec::with_capacity(ROLES.len());
        for watched in self.watched.iter() {
            marks.push(read(&*watched.place).await?);
        }
        let mark = marks.iter().flatten().next().copied().unwrap_or(fresh);
        if marks.iter().flatten().any(|found| *found != mark) {
            return Err(StorageError::Damaged("the mirror has the files of another installation".into()));
        }
        for (watched, _) in self.watched.iter().zip(marks).filter(|(_, found)| found.is_none()) {
            write(&*watched.place, mark).await?;
        }
        Ok(mark)
    }

    /// Gives this storage the mark of another one, whose files it has from now on.
    pub async fn set_mark(&self, mark: Mark) -> Result<(), StorageError> {
        for watched in self.watched.iter() {
            write(&*watched.place, mark).await?;
        }
        Ok(())
    }

    /// Gives another storage the mark of this one, if it has one.
    pub(super) async fn pass_mark_to(&self, to: &Storage) -> Result<(), StorageError> {
        match read(&*self.place).await? {
            Some(mark) => to.set_mark(mark).await,
            None => Ok(()),
        }
    }

    /// Says whether this is the installation's storage. If it is not, whoever wants to read or
    /// write a file hears that it cannot be reached. True when that changes something.
    pub fn set_owned(&self, is_owned: bool) -> bool {
        let why = || {
            format!(
                "{}: this is not the storage that has the files of this installation. Start every server with the same \
                 --storage, a bucket or a shared directory. If the files are to be here from now on, run \
                 `baton storage adopt`",
                self.name()
            )
        };
        self.watched.iter().filter(|watched| watched.place.refuse((!is_owned).then(why))).count() > 0
    }
}

async fn read(place: &dyn Place) -> Result<Option<Mark>, StorageError> {
    let Some(bytes) = read_small(place, &ArtifactPath::mark()).await? else { return Ok(None) };
    let text = String::from_utf8_lossy(&bytes);
    let number = u128::from_str_radix(text.trim(), 16);
    let number = number.map_err(|_| StorageError::Damaged(format!("{:?} is no mark", ArtifactPath::mark())))?;
    Ok(Some(number.to_be_bytes()))
}

async fn write(place: &dyn Place, mark: Mark) -> Result<(), StorageError> {
    let text = Bytes::from(format!("{:032x}\n", u128::from_be_bytes(mark)));
    let mut draft = place.draft(&ArtifactPath::mark(), text.len() as u64).await?;
    draft.write(&[text]).await?;
    draft.publish().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(home: &tempfile::TempDir, name: &str) -> Storage {
        Storage::open(home.path().join(name).to_str().unwrap(), std::iter::empty(), 0).unwrap()
    }

    #[tokio::test]
    async fn a_storage_keeps_its_mark_and_its_mirror_gets_it() {
        let home = tempfile::tempdir().unwrap();
        let old = open(&home, "old");
        assert_eq!(old.mark([1; 16]).await.unwrap(), [1; 16]);
        assert_eq!(old.mark([2; 16]).await.unwrap(), [1; 16]);
        let both = Storage::mirrored(old, open(&home, "new")).unwrap();
        assert_eq!(both.mark([3; 16]).await.unwrap(), [1; 16]);
        assert_eq!(open(&home, "new").mark([4; 16]).await.unwrap(), [1; 16]);
        // A disk that was replaced has the mark of its mirror.
        let replaced = Storage::mirrored(open(&home, "replaced"), open(&home, "new")).unwrap();
        assert_eq!(replaced.mark([5; 16]).await.unwrap(), [1; 16]);
        // Nobody's mark is taken away.
        assert_eq!(open(&home, "other").mark([6; 16]).await.unwrap(), [6; 16]);
        let both = Storage::mirrored(open(&home, "old"), open(&home, "other")).unwrap();
        assert!(matches!(both.mark([7; 16]).await, Err(StorageError::Damaged(_))));
        assert_eq!(open(&home, "other").mark([8; 16]).await.unwrap(), [6; 16]);
    }

    #[tokio::test]
    async fn a_foreign_storage_has_no_files_and_takes_none() {
        let home = tempfile::tempdir().unwrap();
        let foreign = open(&home, "own");
        let mark = foreign.mark([1; 16]).await.unwrap();
        foreign.set_owned(false);
        let path = ArtifactPath::payload(uuid::Uuid::nil());
        let refused = foreign.put_bytes(&path, Bytes::from_static(b"x")).await.unwrap_err();
        assert!(matches!(&refused, StorageError::Unavailable(why) if why.contains("--storage")), "{refused:?}");
        assert!(matches!(foreign.stat(&path).await, Err(StorageError::Unavailable(_))));
        assert!(foreign.health().await[0].error.as_ref().unwrap().contains("baton storage adopt"));
        // Whose it is may change, so its mark can be read, and it can be had back.
        assert_eq!(foreign.mark([2; 16]).await.unwrap(), mark);
        foreign.set_owned(true);
        assert!(foreign.stat(&path).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_mark_that_cannot_be_read_is_no_mark() {
        let home = tempfile::tempdir().unwrap();
        let storage = open(&home, "own");
        std::fs::write(home.path().join("own/storage.mark"), "not a number\n").unwrap();
        assert!(matches!(storage.mark([1; 16]).await, Err(StorageError::Damaged(_))));
        assert_eq!(std::fs::read_to_string(home.path().join("own/storage.mark")).unwrap(), "not a number\n");
    }
}
