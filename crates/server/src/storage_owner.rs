//! Whether the storage is the one that has the files of this installation. Of any other no file is
//! read and none is written: servers that share a store find each other's files, or say why not.

use std::time::Duration;

use baton_store::{Clock, Store};

use crate::artifacts::{Storage, StorageError};
use crate::entropy::{Entropy, SystemEntropy};
use crate::{Error, Settings, open_storage, open_store};

/// How long a storage may take to show its mark. One that does not is looked at again later.
const PATIENCE: Duration = Duration::from_secs(5);

/// Compares the mark of the storage with the one that the store remembers. Whose the storage is may
/// change while servers run, and one that could not be reached may turn out to be another's.
pub(crate) async fn look(store: &dyn Store, storage: &Storage) -> Result<&'static str, Error> {
    let mut fresh = [0; 16];
    SystemEntropy.fill(&mut fresh);
    let is_owned = match tokio::time::timeout(PATIENCE, storage.mark(fresh)).await {
        Ok(Ok(mark)) => store.storage_mark(mark).await? == mark,
        Ok(Err(error @ StorageError::Damaged(_))) => {
            tracing::error!(%error, "the storage for artifacts is not as it should be");
            false
        }
        // Nobody knows which storage it is: it is out of reach, and may come back.
        Ok(Err(error)) => {
            tracing::warn!(%error, "the storage for artifacts cannot be looked at");
            return Ok("it cannot be looked at");
        }
        Err(_) => {
            tracing::warn!(storage = storage.name(), "the storage for artifacts does not answer");
            return Ok("it does not answer");
        }
    };
    if storage.set_owned(is_owned) && !is_owned {
        tracing::error!(
            storage = storage.name(),
            "this is not the storage that has the files of this installation: no file is read or written"
        );
    }
    Ok(if is_owned { "it is ours" } else { "it is another installation's" })
}

/// Says that the storage which the settings name has the installation's files, and no other.
/// Returns its name.
pub async fn adopt_storage(settings: &Settings) -> Result<String, String> {
    if let Some(path) = settings.sqlite_path().filter(|path| !path.exists()) {
        return Err(format!("there is no database at {}; name it with --data or --database", path.display()));
    }
    let store = open_store(settings, Clock::Real).await.map_err(|error| error.to_string())?;
    let storage = open_storage(settings)?;
    let mut fresh = [0; 16];
    SystemEntropy.fill(&mut fresh);
    // The storage first: one that has a mark which nobody knows is one that nobody uses.
    storage.set_mark(fresh).await.map_err(|error| error.to_string())?;
    store.set_storage_mark(fresh).await.map_err(|error| error.to_string())?;
    let entry = baton_store::AuditEntry {
        actor: "baton storage adopt".into(),
        action: "storage.adopt".into(),
        subject: storage.name().into(),
        ..baton_store::AuditEntry::default()
    };
    store.audit(vec![entry]).await.map_err(|error| error.to_string())?;
    store.close().await;
    Ok(storage.name().to_owned())
}
