//! Where the master key comes from: never from the database that holds what it wraps.

use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use baton_core::token;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use hkdf::Hkdf;
use sha2::Sha256;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use zeroize::{Zeroize, Zeroizing};

use crate::Settings;
use crate::entropy::Entropy;
use crate::github::Secret;
use crate::providers::process::Group;

/// The file in the data directory that a key is made in when none is given.
pub const MASTER_KEY_FILE: &str = "master.key";
/// The variable of the environment that may have the key. No setting: it is in no list of them.
pub const MASTER_KEY_VARIABLE: &str = "BATON_MASTER_KEY";

/// Most text that a source may have.
const TEXT_BYTES_MAX: u64 = 64 << 10;
/// Most keys that a source may have.
const KEYS_MAX: usize = 16;
/// How long a command may take to print the key.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(30);
/// How much of what a command complains about is shown.
const TROUBLE_BYTES_MAX: u64 = 4 << 10;

const NONCE: usize = 24;

/// Where the master key comes from.
#[derive(Clone, Debug)]
pub enum MasterKeySource {
    /// The environment.
    Environment(Secret),
    /// A file that somebody has put there.
    File(PathBuf),
    /// A command that prints it.
    Command(String),
    /// A file that the server makes by itself.
    DataDirectory(PathBuf),
}

impl MasterKeySource {
    /// The source that the settings name.
    pub fn of(settings: &Settings) -> MasterKeySource {
        if let Some(text) = &settings.master_key {
            return MasterKeySource::Environment(text.clone());
        }
        if let Some(file) = &settings.master_key_file {
            return MasterKeySource::File(file.into());
        }
        match &settings.master_key_command {
            Some(command) => MasterKeySource::Command(command.clone()),
            None => MasterKeySource::DataDirectory(settings.data.join(MASTER_KEY_FILE)),
        }
    }

    /// The word for its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            MasterKeySource::Environment(_) => "environment",
            MasterKeySource::File(_) => "file",
            MasterKeySource::Command(_) => "command",
            MasterKeySource::DataDirectory(_) => "data_directory",
        }
    }

    /// Where to look for it, in words.
    pub fn place(&self) -> String {
        match self {
            MasterKeySource::Environment(_) => MASTER_KEY_VARIABLE.into(),
            MasterKeySource::File(path) | MasterKeySource::DataDirectory(path) => path.display().to_string(),
            MasterKeySource::Command(_) => "master_key_command".into(),
        }
    }

    /// The file it is in, if it is in one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            MasterKeySource::File(path) | MasterKeySource::DataDirectory(path) => Some(path),
            MasterKeySource::Environment(_) | MasterKeySource::Command(_) => None,
        }
    }

    /// Reads the keys. No key at all where the server may make one and has not yet.
    pub async fn load(&self) -> Result<Option<MasterKeys>, String> {
        let place = self.place();
        let text = match self {
            MasterKeySource::Environment(text) => Zeroizing::new(text.reveal().replace(',', "\n")),
            MasterKeySource::Command(command) => print(command).await?,
            MasterKeySource::DataDirectory(path) if !path.exists() => return Ok(None),
            MasterKeySource::File(path) | MasterKeySource::DataDirectory(path) => {
                read(path).map_err(|error| format!("cannot read the master key in {place}: {error}"))?
            }
        };
        MasterKeys::parse(&text, &place).map(Some)
    }
}

/// A master key: what wraps the installation's secrets.
#[derive(Clone)]
pub struct MasterKey {
    /// What it is called where everybody may read it.
    pub id: String,
    text: Zeroizing<String>,
    cipher: XChaCha20Poly1305,
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.id)
    }
}

impl MasterKey {
    /// The key that is written so, if this is one.
    pub fn parse(text: &str) -> Option<MasterKey> {
        if !token::is_master_key(text) {
            return None;
        }
        let mut key = Zeroizing::new([0; 32]);
        Hkdf::<Sha256>::new(None, text.as_bytes())
            .expand(b"baton: key that wraps the installation's secrets", &mut *key)
            .expect("32 bytes are fewer than 255 hashes");
        let cipher = XChaCha20Poly1305::new(&Key::from(*key));
        Some(MasterKey { id: token::master_key_id(text), text: Zeroizing::new(text.into()), cipher })
    }

    /// What it is.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// A new one.
    pub fn fresh(entropy: &dyn Entropy) -> MasterKey {
        let mut random = Zeroizing::new([0; 32]);
        entropy.fill(&mut *random);
        let mut text = token::master_key(*random);
        let key = MasterKey::parse(&text).expect("it was made as master keys are");
        text.zeroize();
        key
    }

    /// Encrypts the secret of a generation.
    pub(super) fn wrap(&self, generation: u32, secret: &[u8; 32], entropy: &dyn Entropy) -> Vec<u8> {
        let mut nonce = [0; NONCE];
        entropy.fill(&mut nonce);
        let payload = Payload { msg: secret, aad: &bound(generation) };
        let wrapped = self.cipher.encrypt(&XNonce::from(nonce), payload).expect("32 bytes can be encrypted");
        [&nonce[..], &wrapped].concat()
    }

    /// Decrypts what [`MasterKey::wrap`] has made for this generation.
    pub(super) fn open(&self, generation: u32, wrapped: &[u8]) -> Option<Zeroizing<[u8; 32]>> {
        let (nonce, wrapped) = wrapped.split_first_chunk::<NONCE>()?;
        let payload = Payload { msg: wrapped, aad: &bound(generation) };
        let secret = Zeroizing::new(self.cipher.decrypt(&XNonce::from(*nonce), payload).ok()?);
        <[u8; 32]>::try_from(&secret[..]).ok().map(Zeroizing::new)
    }
}

/// What a wrapped secret is bound to, so that one generation cannot take the place of another.
fn bound(generation: u32) -> [u8; 16] {
    let mut bound = *b"baton secret    ";
    bound[12..].copy_from_slice(&generation.to_be_bytes());
    bound
}

/// The keys of a source. The first wraps, all of them can open.
#[derive(Clone, Debug)]
pub struct MasterKeys(Vec<MasterKey>);

impl MasterKeys {
    /// Reads keys, one a line. Empty lines and those that begin with # are none.
    pub fn parse(text: &str, place: &str) -> Result<MasterKeys, String> {
        let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
        let mut keys: Vec<MasterKey> = Vec::new();
        for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            // What stands there instead is not said: it may be a key with a slip in it.
            let key = MasterKey::parse(line).ok_or_else(|| {
                format!(
                    "line {number} of {place} is no master key, which is {} and 52 characters; baton secret generate \
                     makes one",
                    token::MASTER_KEY_PREFIX
                )
            })?;
            if keys.iter().all(|known| known.id != key.id) {
                keys.push(key);
            }
        }
        match keys.len() {
            0 => Err(format!("{place} has no master key; baton secret generate makes one")),
            1..=KEYS_MAX => Ok(MasterKeys(keys)),
            count => Err(format!("{place} has {count} master keys; there may be {KEYS_MAX}")),
        }
    }

    /// This one, and those that were there.
    pub fn with_first(first: MasterKey, others: Option<MasterKeys>) -> MasterKeys {
        let others = others.into_iter().flat_map(|keys| keys.0).filter(|key| key.id != first.id);
        MasterKeys(std::iter::once(first.clone()).chain(others).take(KEYS_MAX).collect())
    }

    /// The one that wraps.
    pub fn first(&self) -> &MasterKey {
        &self.0[0]
    }

    /// The one with this name.
    pub fn get(&self, id: &str) -> Option<&MasterKey> {
        self.0.iter().find(|key| key.id == id)
    }

    /// The names of all.
    pub fn ids(&self) -> Vec<String> {
        self.0.iter().map(|key| key.id.clone()).collect()
    }

    /// Puts the keys into a file for its owner alone, whole or not at all, and durably. `anew` refuses to replace one.
    pub fn write(&self, path: &Path, anew: bool) -> io::Result<()> {
        let directory = path.parent().unwrap_or(Path::new("."));
        // Servers that start at once in one directory have a draft each. Only one rotates its file, and
        // finds what a rotation left that was killed.
        let own = || format!(".{MASTER_KEY_FILE}.{}", std::process::id());
        let draft = directory.join(if anew { own() } else { format!(".{MASTER_KEY_FILE}.new") });
        let _ = std::fs::remove_file(&draft);
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        for key in &self.0 {
            writeln!(file, "{}", &*key.text)?;
        }
        file.sync_all()?;
        let placed = match anew {
            // Another server with the same directory may have been faster: its key stays.
            true => std::fs::hard_link(&draft, path),
            false => std::fs::rename(&draft, path),
        };
        let _ = std::fs::remove_file(&draft);
        placed?;
        std::fs::File::open(directory)?.sync_all()
    }
}

/// The mode of a file that others than its owner can read or change.
pub fn mode_too_wide(path: &Path) -> Option<u32> {
    let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}

fn read(path: &Path) -> io::Result<Zeroizing<String>> {
    let mut text = Zeroizing::new(String::new());
    std::fs::File::open(path)?.take(TEXT_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// Runs a command, and takes what it prints for the key.
async fn print(command: &str) -> Result<Zeroizing<String>, String> {
    let failed = |why: String| format!("master_key_command: {why}");
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("BATON_")) {
        shell.env_remove(name);
    }
    let mut child = shell
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| failed(format!("it cannot be started: {error}")))?;
    // Whatever it has started ends with it, however this ends.
    let _group = Group::led_by(child.id());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let running = async {
        let (printed, trouble) =
            tokio::join!(first_bytes(stdout, TEXT_BYTES_MAX + 1), first_bytes(stderr, TROUBLE_BYTES_MAX));
        (child.wait().await, printed, trouble)
    };
    let (status, printed, trouble) = tokio::time::timeout(COMMAND_TIME_MAX, running)
        .await
        .map_err(|_| failed(format!("it took longer than {} s", COMMAND_TIME_MAX.as_secs())))?;
    let status = status.map_err(|error| failed(error.to_string()))?;
    if !status.success() {
        let said = String::from_utf8_lossy(&trouble);
        return Err(failed(format!("it ended with {status}: {}", said.trim())));
    }
    if printed.len() as u64 > TEXT_BYTES_MAX {
        return Err(failed(format!("it printed more than {TEXT_BYTES_MAX} bytes, which is no key")));
    }
    let text = std::str::from_utf8(&printed).map_err(|_| failed("it printed what is no text".into()))?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// What comes first, up to a limit; the rest is read, so that whoever writes it gets on, and forgotten.
async fn first_bytes(from: Option<impl AsyncRead + Unpin>, limit: u64) -> Zeroizing<Vec<u8>> {
    let mut bytes = Zeroizing::new(Vec::new());
    if let Some(mut from) = from {
        let _ = (&mut from).take(limit).read_to_end(&mut bytes).await;
        let _ = tokio::io::copy(&mut from, &mut tokio::io::sink()).await;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::SeededEntropy;

    fn keys(count: u8) -> Vec<String> {
        (0..count).map(|number| token::master_key([number; 32])).collect()
    }

    #[test]
    fn a_source_has_one_key_a_line_and_says_which_line_is_none() {
        let [one, two] = <[String; 2]>::try_from(keys(2)).unwrap();
        let parsed = MasterKeys::parse(&format!("# mine\n\n {one} \n{two}\n{one}\n"), "f").unwrap();
        assert_eq!(parsed.ids(), [token::master_key_id(&one), token::master_key_id(&two)]);
        assert_eq!(parsed.first().id, token::master_key_id(&one));
        let slip = format!("{one}\n{}u\n", &two[..55]);
        let refused = MasterKeys::parse(&slip, "f").unwrap_err();
        assert!(refused.contains("line 2 of f") && !refused.contains(&two[4..20]), "{refused}");
        for none in ["", "\n\n", "# only words\n"] {
            assert!(MasterKeys::parse(none, "f").unwrap_err().contains("baton secret generate"));
        }
        assert!(MasterKeys::parse(&keys(17).join("\n"), "f").unwrap_err().contains("17"));
    }

    #[test]
    fn what_one_key_wraps_no_other_opens_nor_another_generation() {
        let (entropy, secret) = (SeededEntropy::new(3), [9; 32]);
        let (key, other) = (MasterKey::fresh(&entropy), MasterKey::fresh(&entropy));
        let wrapped = key.wrap(4, &secret, &entropy);
        assert_eq!(key.open(4, &wrapped).as_deref(), Some(&secret));
        assert!(key.open(5, &wrapped).is_none() && other.open(4, &wrapped).is_none());
        assert!(!wrapped.windows(8).any(|window| window == [9; 8]));
        for at in 0..wrapped.len() {
            let mut forged = wrapped.clone();
            forged[at] ^= 1;
            assert!(key.open(4, &forged).is_none(), "byte {at}");
        }
        assert!(key.open(4, &wrapped[..20]).is_none() && key.open(4, b"").is_none());
    }

    #[tokio::test]
    async fn a_file_is_made_for_its_owner_alone_and_never_replaced_by_a_new_one() {
        let (home, entropy) = (tempfile::tempdir().unwrap(), SeededEntropy::new(3));
        let path = home.path().join(MASTER_KEY_FILE);
        let source = MasterKeySource::DataDirectory(path.clone());
        assert!(source.load().await.unwrap().is_none());
        let first = MasterKeys::with_first(MasterKey::fresh(&entropy), None);
        first.write(&path, true).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let second = MasterKeys::with_first(MasterKey::fresh(&entropy), Some(first.clone()));
        assert_eq!(second.write(&path, true).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(source.load().await.unwrap().unwrap().ids(), first.ids());
        // A rotation that was killed has left its draft.
        std::fs::write(home.path().join(format!(".{MASTER_KEY_FILE}.new")), "half a k").unwrap();
        second.write(&path, false).unwrap();
        assert_eq!(source.load().await.unwrap().unwrap().ids(), second.ids());
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1, "no drafts are left");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(mode_too_wide(&path), Some(0o644));
    }

    #[tokio::test]
    async fn a_command_prints_the_key_or_says_why_not() {
        let key = token::master_key([5; 32]);
        let load =
            async |command: String| MasterKeySource::Command(command).load().await.map(|keys| keys.unwrap().ids());
        assert_eq!(load(format!("echo {key}")).await, Ok(vec![token::master_key_id(&key)]));
        for (command, expected) in [
            ("echo no such ring >&2; exit 3", "no such ring"),
            ("exit 3", "exit status: 3"),
            ("echo hello", "line 1 of master_key_command is no master key"),
            ("true", "has no master key"),
            ("head -c 100000 /dev/zero", "more than 65536 bytes"),
        ] {
            let refused = load(command.into()).await.unwrap_err();
            assert!(refused.contains(expected), "{command}: {refused}");
        }
    }
}
