//! TLS: the server's certificate, which may be replaced while it runs, and what clients have shown.
//! docs/adr/0023 has the reasons.

mod certificate;
mod files;
mod handshake;
mod self_signed;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use baton_core::Millis;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use tokio::sync::Semaphore;

pub use certificate::{About, fingerprint};
pub use files::look;
pub(crate) use handshake::shake;

use crate::Settings;
use files::{Files, Loaded, Marks};

/// Name of the file in the data directory that says which certificates the server shows while it
/// runs: one fingerprint on each line.
pub const PIN_FILE: &str = "server.pin";
/// The value of the setting `tls` that has the server make a certificate.
pub const SELF_SIGNED: &str = "self-signed";
/// How often it is looked whether files have changed. What has changed is read one look later: of two
/// files the second may not be there yet.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A certificate that ends within so many days is told of.
pub const ENDS_SOON_DAYS: i64 = 14;
const DAY_MS: i64 = 24 * 3600 * 1000;

/// The server's side of TLS.
pub struct Tls {
    files: Files,
    is_self_signed: bool,
    /// Keys that certificates of clients stand for, by a name in them.
    keys: BTreeMap<String, String>,
    pin_file: OnceLock<PathBuf>,
    /// The files as they were when they were last read.
    read: Mutex<Marks>,
    now: RwLock<Now>,
    /// The files have changed since they were last used, and cannot be.
    has_failed: AtomicBool,
    /// Handshakes that compute at once. What they leave is for those whose handshake is over.
    pub(crate) computing: Semaphore,
}

struct Now {
    config: Arc<ServerConfig>,
    about: About,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Tls {
    /// What the settings say, or nothing where they want no TLS. Makes a certificate if they want one.
    pub fn open(settings: &Settings) -> Result<Option<Arc<Tls>>, String> {
        let is_self_signed = settings.tls.as_deref() == Some(SELF_SIGNED);
        let (certificate, key) = match (&settings.tls_cert, &settings.tls_key) {
            (Some(certificate), Some(key)) => (PathBuf::from(certificate), PathBuf::from(key)),
            _ if is_self_signed => {
                self_signed::ensure(&settings.data, &settings.listen)?;
                self_signed::paths(&settings.data)
            }
            _ => return Ok(None),
        };
        let is_required = settings.tls_client_auth == "required";
        let clients = settings.tls_client_ca.as_ref().map(|path| (PathBuf::from(path), is_required));
        let files = Files { certificate, key, clients };
        let read = Mutex::new(files.marks());
        let Loaded { config, about } = files.load().map_err(|why| format!("TLS cannot be set up: {why}"))?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let tls = Tls {
            files,
            is_self_signed,
            keys: settings.tls_client_keys.clone(),
            pin_file: OnceLock::new(),
            read,
            now: RwLock::new(Now { config, about }),
            has_failed: AtomicBool::new(false),
            computing: Semaphore::new((threads / 2).max(1)),
        };
        tls.tell_of_end();
        Ok(Some(Arc::new(tls)))
    }

    /// Tells other programs on this machine which certificate they may trust, from now on. To be called
    /// by whoever has the data directory for itself.
    pub(crate) fn leave_pins(&self, data: &Path) -> Result<(), String> {
        let path = self.pin_file.get_or_init(|| data.join(PIN_FILE));
        let written = self.write_pins(&[&self.about().fingerprint]);
        written.map_err(|error| format!("cannot write {}: {error}", path.display()))
    }

    /// What the certificate of the server says.
    pub fn about(&self) -> About {
        self.now.read().expect("nobody panics while holding it").about.clone()
    }

    /// Where the certificate is.
    pub fn certificate_path(&self) -> &Path {
        &self.files.certificate
    }

    /// True when the server made its certificate.
    pub fn is_self_signed(&self) -> bool {
        self.is_self_signed
    }

    /// True while the files have changed and cannot be used: an older certificate is shown.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// How handshakes that begin now are carried out.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.now.read().expect("nobody panics while holding it").config.clone()
    }

    /// Whom a client has shown itself to be.
    pub(crate) fn holder(&self, shown: Option<&[CertificateDer<'_>]>) -> Option<Holder> {
        let about = About::of(shown?.first()?).ok()?;
        let key_id = about.names.iter().find_map(|name| self.keys.get(name)).cloned();
        if key_id.is_none() {
            tracing::debug!(names = ?about.names, "a client certificate stands for no API key (tls_client_keys)");
        }
        Some(Holder { key_id, not_after: about.not_after })
    }

    /// Takes over files that have changed, until it is dropped.
    pub(crate) async fn watch(&self) {
        let mut seen = self.files.marks();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let found = self.files.marks();
            let is_settled = std::mem::replace(&mut seen, found.clone()) == found;
            if is_settled && self.is_new(found) {
                self.reload();
            }
        }
    }

    /// Whether the files are not those that were read last. They are about to be.
    fn is_new(&self, found: Marks) -> bool {
        let mut read = self.read.lock().expect("nobody panics while holding it");
        std::mem::replace(&mut *read, found.clone()) != found
    }

    /// Takes over what is in the files now. What cannot be used is said once, and changes nothing.
    fn reload(&self) {
        let certificate = self.files.certificate.display();
        let kept = "the certificate that was good before stays in use; correct the files";
        match self.files.load() {
            Err(why) => {
                tracing::error!(why, "the TLS files have changed and cannot be used: {kept}");
                self.has_failed.store(true, Ordering::Relaxed);
            }
            Ok(new) if files::is_over(&new.about, now_ms()) && !files::is_over(&self.about(), now_ms()) => {
                tracing::error!(%certificate, "the TLS files have changed, and the time of the new certificate is over: {kept}");
                self.has_failed.store(true, Ordering::Relaxed);
            }
            Ok(Loaded { config, about }) => {
                let before = self.about().fingerprint;
                // Both are good for a moment: whoever read the file before connects after.
                if let Err(error) = self.write_pins(&[&about.fingerprint, &before]) {
                    tracing::warn!(%error, "{PIN_FILE} could not be written; commands on this machine may need --tls-pin");
                }
                tracing::info!(%certificate, fingerprint = about.fingerprint, "the TLS files have changed and are in use");
                *self.now.write().expect("nobody panics while holding it") = Now { config, about };
                self.has_failed.store(false, Ordering::Relaxed);
                self.tell_of_end();
            }
        }
    }

    fn write_pins(&self, pins: &[&str]) -> std::io::Result<()> {
        match self.pin_file.get() {
            Some(path) => self_signed::write(path, &format!("{}\n", pins.join("\n")), 0o644),
            None => Ok(()),
        }
    }

    /// Says in the log that the certificate ends soon, if it does.
    fn tell_of_end(&self) {
        let (about, certificate) = (self.about(), self.files.certificate.display());
        let days = (about.not_after - now_ms()).div_euclid(DAY_MS);
        if files::is_over(&about, now_ms()) {
            tracing::error!(%certificate, "the time of the TLS certificate is over: clients refuse it; replace the files");
        } else if days < ENDS_SOON_DAYS {
            tracing::warn!(%certificate, days, "the time of the TLS certificate is over soon: replace the files");
        }
    }
}

/// Whoever has shown a certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Holder {
    /// The key that it stands for.
    pub key_id: Option<String>,
    not_after: Millis,
}

impl Holder {
    /// True until the time of its certificate is over: a connection may last longer.
    pub fn is_good(&self) -> bool {
        self.not_after > now_ms()
    }
}

/// Certificates are good by the clock of this machine, whatever the store's says.
fn now_ms() -> Millis {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(now.as_millis()).unwrap_or(Millis::MAX)
}
