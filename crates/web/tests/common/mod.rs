//! A server with the dashboard in this process, on SQLite in a directory of its own, and a browser's part of the talk.

#![allow(dead_code, reason = "each test file uses some of it")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton::Client;
use baton::proto::CreateKey;
use baton_core::Millis;
use baton_server::entropy::SeededEntropy;
use baton_server::{App, Settings, serve};
use baton_store::Clock;
use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// The admin key of every server here.
pub const KEY: &str = "an-admin-key-for-the-tests";
/// Where clocks begin.
pub const START: Millis = 1_700_000_000_000;
/// How long anything may take before a test gives up on it.
const PATIENCE: Duration = Duration::from_secs(20);
/// Names that nobody should have, and somebody will.
pub const ABSURD: [&str; 5] = [
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "שלום עולם\u{202e}txt.exe",
    "a\u{7}b\u{1b}[31mred",
    "&lt;b&gt; {{7*7}} ${7*7}",
];

/// A running server.
pub struct Site {
    pub app: App,
    /// With the admin key.
    pub client: Client,
    pub address: SocketAddr,
    pub clock: Clock,
    stop: CancellationToken,
    raw: legacy::Client<HttpConnector, Full<Bytes>>,
    _files: tempfile::TempDir,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: String,
}

/// Somebody who has signed in.
#[derive(Clone, Debug)]
pub struct Session {
    cookie: String,
    csrf: String,
}

impl Site {
    /// On a clock that stands still until it is moved.
    pub async fn start() -> Site {
        Site::with(|_| {}).await
    }

    /// As `start`, with other settings.
    pub async fn with(change: impl FnOnce(&mut Settings)) -> Site {
        let files = tempfile::tempdir().unwrap();
        let mut settings = Settings { data: files.path().to_owned(), ..Settings::default() };
        settings.api_key = Some(KEY.into());
        settings.master_key = Some(baton_core::token::master_key([7; 32]).into());
        settings.storage_url = Some(files.path().join("files").to_string_lossy().into_owned());
        settings.storage_free_bytes_min = 0;
        change(&mut settings);
        let clock = Clock::manual(START);
        let store = baton_server::open_store(&settings, clock.clone()).await.unwrap();
        let storage = baton_server::open_storage(&settings).unwrap();
        let app = App::build(store, storage, settings, Arc::new(SeededEntropy::new(7))).await.unwrap();
        app.use_dashboard(baton_web::dashboard);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(serve(app.clone(), listener, stop.clone().cancelled_owned()));
        let client = Client::new(&format!("http://{address}"), KEY).unwrap();
        let raw = legacy::Client::builder(TokioExecutor::new()).build_http();
        Site { app, client, address, clock, stop, raw, _files: files }
    }

    async fn send(&self, request: http::request::Builder, body: String) -> Answer {
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        let (head, body) = self.raw.request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            body: String::from_utf8_lossy(&body).into_owned(),
        }
    }

    /// A call of the API with the admin key.
    pub async fn api(&self, method: &str, path: &str, body: serde_json::Value) -> serde_json::Value {
        self.api_as(method, path, ("x-api-key", KEY), body).await
    }

    /// A call of the API with another credential.
    pub async fn api_as(
        &self,
        method: &str,
        path: &str,
        credential: (&str, &str),
        body: serde_json::Value,
    ) -> serde_json::Value {
        let request =
            self.request(method, path).header(credential.0, credential.1).header("content-type", "application/json");
        let answer = self.send(request, if body.is_null() { String::new() } else { body.to_string() }).await;
        assert!(answer.status < 300, "{method} {path}: {} {}", answer.status, answer.body);
        serde_json::from_str(&answer.body).unwrap_or_default()
    }

    fn request(&self, method: &str, path: &str) -> http::request::Builder {
        Request::builder().method(method).uri(format!("http://{}{path}", self.address))
    }

    /// A key with these scopes.
    pub async fn key(&self, scopes: &[&str], namespace: Option<&str>) -> String {
        let wanted = CreateKey {
            name: "a test's".into(),
            scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
            namespace: namespace.map(str::to_owned),
            expires_in_ms: None,
        };
        self.client.create_key(&wanted).await.unwrap().key
    }

    /// Signs in with a key, as the form does.
    pub async fn sign_in(&self, key: &str) -> Session {
        let request = self.request("POST", "/signin").header("content-type", "application/x-www-form-urlencoded");
        let answer = self.send(request, format!("key={key}&next=%2F")).await;
        let set = answer.headers.get_all("set-cookie").into_iter().filter_map(|value| value.to_str().ok());
        let pairs: Vec<&str> = set.filter_map(|value| value.split(';').next()).collect();
        assert!(!pairs.is_empty(), "not signed in: {} {}", answer.status, answer.body);
        let cookie = pairs.join("; ");
        let page = self.send(self.request("GET", "/more").header("cookie", &cookie), String::new()).await;
        let csrf = page.body.split("name=\"csrf\" value=\"").nth(1).and_then(|rest| rest.split('"').next());
        Session { cookie, csrf: csrf.expect("a page has the token of its forms").to_owned() }
    }

    /// Signs in as somebody who may do everything.
    pub async fn administrator(&self) -> Session {
        self.sign_in(KEY).await
    }

    /// Somebody with a new key.
    pub async fn visitor(&self, scopes: &[&str], namespace: Option<&str>) -> Session {
        self.sign_in(&self.key(scopes, namespace).await).await
    }

    /// A page, as a browser gets it.
    pub async fn get(&self, session: &Session, path: &str) -> Answer {
        self.send(self.request("GET", path).header("cookie", &session.cookie), String::new()).await
    }

    /// A page, as the script asks for it.
    pub async fn get_scripted(&self, session: &Session, path: &str) -> Answer {
        let request = self.request("GET", path).header("cookie", &session.cookie).header("accept", "application/json");
        self.send(request, String::new()).await
    }

    /// A form, as the script sends it.
    pub async fn post(&self, session: &Session, path: &str, fields: &[(&str, &str)]) -> Answer {
        let request = self.request("POST", path).header("accept", "application/json");
        self.send_form(request, session, fields).await
    }

    /// A form, as a browser without the script sends it.
    pub async fn post_plain(&self, session: &Session, path: &str, fields: &[(&str, &str)]) -> Answer {
        self.send_form(self.request("POST", path), session, fields).await
    }

    async fn send_form(&self, request: http::request::Builder, session: &Session, fields: &[(&str, &str)]) -> Answer {
        let request = request
            .header("cookie", &session.cookie)
            .header("sec-fetch-site", "same-origin")
            .header("content-type", "application/x-www-form-urlencoded");
        let pairs = fields.iter().copied().chain([("csrf", session.csrf.as_str())]);
        let body: Vec<String> = pairs.map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
        self.send(request, body.join("&")).await
    }
}

impl Session {
    /// The same with forms that are of no session.
    pub fn without_csrf(&self) -> Session {
        Session { csrf: "no".into(), ..self.clone() }
    }
}

impl Answer {
    /// What the script reads.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// The page itself, without the shell: between the tags of `<main>`.
    pub fn main(&self) -> &str {
        let begin = self.body.find("<main").unwrap_or_default();
        let end = self.body.find("</main>").unwrap_or(self.body.len());
        &self.body[begin..end]
    }

    /// Fails unless this is a page on which no text of a user became markup.
    #[track_caller]
    pub fn assert_harmless(&self) -> &Answer {
        assert_eq!(self.status, 200, "{}", self.main());
        self.assert_text()
    }

    /// As `assert_harmless`, also where the page says that something is not there.
    #[track_caller]
    pub fn assert_text(&self) -> &Answer {
        for bad in ["<script>alert", "<img src=x"] {
            assert!(!self.body.contains(bad), "{bad:?} in {}", self.main());
        }
        // Attributes are not shown; whatever is shown has control characters as pictures.
        let shown: String = self.body.split('<').filter_map(|piece| Some(piece.split_once('>')?.1)).collect();
        for bad in ["\u{202e}", "\u{1b}", "\u{7}"] {
            assert!(!shown.contains(bad), "{bad:?} in {}", self.main());
        }
        self
    }

    /// Fails unless the page has all of these, as markup or as what is read.
    #[track_caller]
    pub fn assert_has(&self, words: &[&str]) -> &Answer {
        let read: String = self.body.split('<').filter_map(|piece| Some(piece.split_once('>')?.1)).collect();
        for word in words {
            assert!(
                self.body.contains(word) || read.contains(word),
                "no {word:?} in ({}) {}",
                self.status,
                self.main()
            );
        }
        self
    }

    /// Fails if the page has any of these.
    #[track_caller]
    pub fn assert_lacks(&self, words: &[&str]) -> &Answer {
        for word in words {
            assert!(!self.main().contains(word), "{word:?} in {}", self.main());
        }
        self
    }
}

/// A text as a part of an address or a form.
pub fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// Waits until something holds; a test that waits for long fails.
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < until, "it never came about: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
