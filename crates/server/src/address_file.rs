//! The file in the data directory that says where the server listens, for commands on its machine.
//!
//! It is locked for as long as its server lives. Of several servers in one data directory the first
//! one is found, and the next one takes over when that has gone.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Pause before a server looks again whether the one before it has gone.
const PAUSE: Duration = Duration::from_secs(1);

/// The file, or the wish to have it. It is removed when this is dropped.
#[derive(Debug)]
pub struct AddressFile {
    path: PathBuf,
    held: Arc<Mutex<Option<File>>>,
    waiting: Option<tokio::task::AbortHandle>,
}

impl AddressFile {
    /// Leaves this text there, now or when no other server has the file any more.
    pub fn leave(path: PathBuf, text: String) -> io::Result<AddressFile> {
        let held = Arc::new(Mutex::new(write(&path, &text)?));
        let waiting = is_free(&held).then(|| {
            let (path, held) = (path.clone(), held.clone());
            let waiting = async move {
                while is_free(&held) {
                    tokio::time::sleep(PAUSE).await;
                    // A disk that is full may have room again.
                    *lock(&held) = write(&path, &text).unwrap_or_default();
                }
            };
            tokio::spawn(waiting).abort_handle()
        });
        Ok(AddressFile { path, held, waiting })
    }
}

impl Drop for AddressFile {
    fn drop(&mut self) {
        if let Some(waiting) = &self.waiting {
            waiting.abort();
        }
        // Removed before the lock goes: afterwards it may be another server's.
        if lock(&self.held).is_some() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn lock(held: &Mutex<Option<File>>) -> std::sync::MutexGuard<'_, Option<File>> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_free(held: &Mutex<Option<File>>) -> bool {
    lock(held).is_none()
}

/// What a server has left there that is still alive. One that was killed has left its address, too,
/// where any program may listen by now.
pub fn read(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    // Whoever gets the lock finds nobody who has it. A file system without locks proves nothing.
    if file.try_lock_shared().is_ok() {
        return None;
    }
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    Some(text.trim().to_owned())
}

/// Writes the file and keeps its lock, unless another server has that.
fn write(path: &Path, text: &str) -> io::Result<Option<File>> {
    // For its owner alone: whoever can open it can lock it.
    let mut file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        // A file system without locks: the last server that was started is found.
        Err(TryLockError::Error(_)) => {}
    }
    // The server before may have removed it between the two.
    if std::fs::metadata(path).map(|found| found.ino()).ok() != Some(file.metadata()?.ino()) {
        return Ok(None);
    }
    file.set_len(0)?;
    file.write_all(text.as_bytes())?;
    Ok(Some(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_next_server_takes_over_when_the_first_has_gone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("server.addr");
        let read = || std::fs::read_to_string(&path).ok();
        let leave = |text: &str| AddressFile::leave(path.clone(), text.into()).unwrap();
        let first = leave("127.0.0.1:1");
        let second = leave("127.0.0.1:2");
        assert_eq!(read().as_deref(), Some("127.0.0.1:1"));
        drop(leave("127.0.0.1:3"));
        assert_eq!(read().as_deref(), Some("127.0.0.1:1"), "who never had it takes nothing away");
        drop(first);
        assert_eq!(read(), None);
        tokio::time::sleep(PAUSE * 2).await;
        assert_eq!(read().as_deref(), Some("127.0.0.1:2"));
        drop(second);
        assert_eq!(read(), None);
    }

    #[tokio::test]
    async fn what_a_killed_server_left_is_not_believed_and_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("server.addr");
        std::fs::write(&path, "127.0.0.1:12345 and more").unwrap();
        assert_eq!(read(&path), None, "nobody is there any more");
        let file = AddressFile::leave(path.clone(), "127.0.0.1:1".into()).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "127.0.0.1:1");
        assert_eq!(read(&path).as_deref(), Some("127.0.0.1:1"));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(file);
        assert_eq!(read(&path), None);
    }
}
