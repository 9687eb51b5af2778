//! A server that speaks TLS, with certificates of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use baton::{Client, Dialer, Stream, Tls};
use baton_server::entropy::SystemEntropy;
use baton_server::{App, Settings, serve, tls};
use baton_store::Clock;
use baton_testkit::{Authority, Issued};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub const KEY: &str = "an-admin-key-for-the-tests";
/// How long anything may take before a test gives up on it.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Whom the server's certificate is for.
pub const NAMES: [&str; 2] = ["localhost", "127.0.0.1"];

pub struct Rig {
    pub app: App,
    pub address: SocketAddr,
    pub authority: Arc<Authority>,
    pub home: Arc<TempDir>,
    stop: CancellationToken,
    served: Option<JoinHandle<()>>,
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Rig {
    pub async fn start() -> Rig {
        Rig::with(|authority| authority.server(&NAMES), |_, _| {}).await
    }

    /// With this certificate, and other settings.
    pub async fn with(issue: impl FnOnce(&Authority) -> Issued, change: impl FnOnce(&mut Settings, &Path)) -> Rig {
        let (authority, home) = (Authority::new(), tempfile::tempdir().unwrap());
        std::fs::write(home.path().join("ca.pem"), authority.pem()).unwrap();
        issue(&authority).write(home.path(), "server");
        Rig::launch(Arc::new(authority), Arc::new(home), change).await
    }

    /// Stops it, and starts another on the same store, with the same certificate and other settings.
    pub async fn again(mut self, change: impl FnOnce(&mut Settings, &Path)) -> Rig {
        self.stop.cancel();
        self.served.take().unwrap().await.unwrap();
        Rig::launch(self.authority.clone(), self.home.clone(), change).await
    }

    async fn launch(authority: Arc<Authority>, home: Arc<TempDir>, change: impl FnOnce(&mut Settings, &Path)) -> Rig {
        let (certificate, key) = (home.path().join("server.crt"), home.path().join("server.key"));
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let mut settings = Settings {
            data: home.path().to_owned(),
            api_key: Some(KEY.into()),
            tls_cert: Some(text(&certificate)),
            tls_key: Some(text(&key)),
            storage_free_bytes_min: 0,
            ..Settings::default()
        };
        change(&mut settings, home.path());
        let store = baton_server::open_store(&settings, Clock::Real).await.unwrap();
        let storage = baton_server::open_storage(&settings).unwrap();
        let app = App::build(store, storage, settings.clone(), Arc::new(SystemEntropy)).await.unwrap();
        app.use_tls(tls::Tls::open(&settings).unwrap().unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let served = Some(tokio::spawn(serve(app.clone(), listener, stop.clone().cancelled_owned())));
        Rig { app, address, authority, home, stop, served }
    }

    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// What trusts the server.
    pub fn trust(&self) -> Tls {
        Tls::new().ca_file(self.path("ca.pem")).unwrap()
    }

    pub fn client(&self) -> Client {
        self.client_with(KEY, &self.trust())
    }

    pub fn client_with(&self, key: &str, tls: &Tls) -> Client {
        Client::new_with_tls(&self.url(), key, tls).unwrap()
    }

    /// A bare connection over TLS.
    pub async fn dial(&self) -> Stream {
        Dialer::new(&self.url(), &self.trust()).unwrap().dial().await.unwrap()
    }

    /// A bare connection without.
    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// The fingerprint of the certificate that the server shows now.
    pub async fn shown(&self) -> String {
        tls::fingerprint(&self.dial().await.certificate().unwrap().into())
    }

    /// Puts a certificate in the place of the server's.
    pub fn replace(&self, issued: &Issued) {
        issued.write(self.home.path(), "server");
    }
}

/// Waits until something is so.
pub async fn eventually(what: &str, is_so: impl AsyncFn() -> bool) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}
