//! A server, a browser on it, and words to say briefly what a person does and sees.

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::time::{Duration, Instant};

use baton::Client as Api;
use baton::proto::{CreateKey, CreatedKey};
use baton_testkit::{Baton, Process};
use fantoccini::cookies::Cookie;
use fantoccini::elements::Element;
use fantoccini::{Client, ClientBuilder, Locator};
use futures_util::FutureExt;
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The program under test.
pub const BATON: &str = env!("CARGO_BIN_EXE_baton");
/// The key of servers that make none themselves.
pub const KEY: &str = "a-key-for-tests-in-a-browser";
/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// How often it is looked.
const LOOK: Duration = Duration::from_millis(25);
/// What a person needs to see the dashboard on the machine of the tests.
const FLAGS: [&str; 11] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    // It ends with its driver, however that ends.
    "--remote-debugging-pipe",
    "--window-size=1280,1000",
];

/// A server with its directory.
pub struct Site {
    pub server: Baton,
    pub api: Api,
    pub home: TempDir,
}

impl Site {
    /// A server that has the key of the tests.
    pub async fn start() -> Site {
        Site::with(&[]).await
    }

    /// As `start`, with more settings.
    pub async fn with(more: &[(&str, &str)]) -> Site {
        let home = tempfile::tempdir().unwrap();
        let settings: Vec<_> = [("BATON_API_KEY", KEY)].into_iter().chain(more.iter().copied()).collect();
        let server = Baton::serve(&["--data", text(home.path())], &settings).await;
        let api = Api::new(&server.url(), KEY).unwrap();
        Site { server, api, home }
    }

    /// The address of a page.
    pub fn at(&self, path: &str) -> String {
        format!("{}{path}", self.server.url())
    }

    /// A new key with these scopes.
    pub async fn key(&self, scopes: &[&str]) -> CreatedKey {
        self.key_named("somebody", scopes).await
    }

    /// As `key`, with a name.
    pub async fn key_named(&self, name: &str, scopes: &[&str]) -> CreatedKey {
        let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        let key = CreateKey { name: name.into(), scopes, namespace: None, expires_in_ms: None };
        self.api.create_key(&key).await.unwrap()
    }

    /// What a command of the program prints.
    pub async fn command(&self, arguments: &[&str]) -> String {
        let url = self.server.url();
        let environment =
            [("BATON_URL", url.as_str()), ("BATON_API_KEY", KEY), ("XDG_CONFIG_HOME", text(self.home.path()))];
        let mut process = Process::spawn(BATON, arguments, environment);
        let status = process.wait(PATIENCE).await;
        assert!(status.success(), "{arguments:?}: {}", process.output());
        process.output()
    }
}

/// A path as text.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are text")
}

/// A browser with one page.
pub struct Browser {
    page: Client,
    _driver: Process,
    _profile: TempDir,
}

/// Carries out a test with a browser, which is closed whatever comes of it.
pub async fn in_browser(test: impl AsyncFnOnce(&Browser)) {
    let browser = Browser::open().await;
    let result = AssertUnwindSafe(test(&browser)).catch_unwind().await;
    if result.is_err() {
        browser.leave_a_picture().await;
    }
    let _ = browser.page.clone().close().await;
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}

impl Browser {
    async fn open() -> Browser {
        let port = baton_testkit::free_port();
        let driver = Process::spawn("chromedriver", [format!("--port={port}")], [("LANG", "C.UTF-8")]);
        let profile = tempfile::tempdir().unwrap();
        let own = format!("--user-data-dir={}", text(profile.path()));
        let arguments: Vec<&str> = FLAGS.into_iter().chain([own.as_str()]).collect();
        let wanted = json!({
            "browserName": "chrome",
            "acceptInsecureCerts": true,
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
        });
        let wanted = wanted.as_object().unwrap().clone();
        let address = format!("http://127.0.0.1:{port}");
        let until = Instant::now() + PATIENCE;
        loop {
            let connector = HttpConnector::new();
            match ClientBuilder::new(connector).capabilities(wanted.clone()).connect(&address).await {
                Ok(page) => return Browser { page, _driver: driver, _profile: profile },
                Err(error) if Instant::now() > until => panic!("no browser: {error}\n{}", driver.output()),
                Err(_) => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// Where BROWSER_PICTURES says, what was seen when a test failed.
    async fn leave_a_picture(&self) {
        let Ok(directory) = std::env::var("BROWSER_PICTURES") else { return };
        let name = std::thread::current().name().unwrap_or("test").replace("::", "-");
        if let Ok(picture) = self.page.screenshot().await {
            let _ = std::fs::write(Path::new(&directory).join(format!("{name}.png")), picture);
        }
    }

    /// Goes to an address.
    pub async fn goto(&self, url: &str) {
        self.page.goto(url).await.unwrap();
    }

    /// Signs in with a key, from wherever one is.
    pub async fn sign_in(&self, site: &Site, key: &str) {
        self.goto(&site.at("/signin")).await;
        self.type_into("#key", key).await;
        self.press("main form button").await;
        self.arrives_at("/").await;
    }

    /// Path and query of the address that is shown.
    pub async fn address(&self) -> String {
        let url = self.page.current_url().await.unwrap();
        match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        }
    }

    /// Waits until the address that is shown is this one.
    pub async fn arrives_at(&self, address: &str) {
        eventually(&format!("one is at {address}"), async || self.address().await == address).await;
    }

    /// The element that this selector finds, once it is there.
    pub async fn element(&self, selector: &str) -> Element {
        self.page
            .wait()
            .at_most(PATIENCE)
            .every(LOOK)
            .for_element(Locator::Css(selector))
            .await
            .unwrap_or_else(|error| panic!("no {selector}: {error}"))
    }

    /// Whether there is such an element now.
    pub async fn has(&self, selector: &str) -> bool {
        !self.page.find_all(Locator::Css(selector)).await.unwrap().is_empty()
    }

    /// Clicks on an element.
    pub async fn press(&self, selector: &str) {
        self.element(selector).await.click().await.unwrap_or_else(|error| panic!("{selector}: {error}"));
    }

    /// Types into a field.
    pub async fn type_into(&self, selector: &str, keys: &str) {
        self.element(selector).await.send_keys(keys).await.unwrap_or_else(|error| panic!("{selector}: {error}"));
    }

    /// What somebody reads on the page.
    pub async fn text(&self) -> String {
        self.run("return document.body.innerText").await.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until this can be read.
    pub async fn reads(&self, words: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            let text = self.text().await;
            if text.contains(words) {
                return;
            }
            assert!(Instant::now() < until, "not within {PATIENCE:?}: {words:?} in\n{text}");
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The value of a script.
    pub async fn run(&self, script: &str) -> Value {
        self.page.execute(script, vec![]).await.unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// The value that a script hands to the last of its arguments.
    pub async fn run_async(&self, script: &str) -> Value {
        self.page.execute_async(script, vec![]).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// All cookies, also those that no script sees.
    pub async fn cookies(&self) -> Vec<Cookie<'static>> {
        self.page.get_all_cookies().await.unwrap()
    }

    /// Leaves a mark that is gone when the page is loaded again.
    pub async fn mark(&self) {
        self.run("window.isTheSame = true").await;
    }

    /// Whether the page was not loaded again since.
    pub async fn is_marked(&self) -> bool {
        self.run("return window.isTheSame === true").await == json!(true)
    }
}

/// Looks until it is so.
pub async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < until, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(LOOK).await;
    }
}
