//! A browser without a window, asked through its driver.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use baton_testkit::Process;
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long the driver may take to start.
const PATIENCE: Duration = Duration::from_secs(30);
/// Each page begins at its top, and in the same zone on every machine.
const FLAGS: [&str; 11] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--hide-scrollbars",
    // It ends with its driver, however that ends.
    "--remote-debugging-pipe",
    "--force-color-profile=srgb",
];

/// How a page is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub width: u32,
    /// The height of the window; the picture of a whole page is as high as the page, within `height_max`.
    pub height: u32,
    pub height_max: u32,
    pub is_dark: bool,
    /// Pixels of the picture for one of the page.
    pub scale: f64,
}

/// A browser with one page.
pub struct Browser {
    http: Client<HttpConnector, Full<Bytes>>,
    session: String,
    _driver: Process,
    _profile: TempDir,
}

impl Browser {
    /// Starts one.
    pub async fn open() -> Browser {
        let port = baton_testkit::free_port();
        let environment = [("LANG", "C.UTF-8"), ("TZ", "UTC")];
        let driver = Process::spawn("chromedriver", [format!("--port={port}")], environment);
        let profile = tempfile::tempdir().expect("a directory for the browser");
        let own = format!("--user-data-dir={}", profile.path().display());
        let arguments: Vec<&str> = FLAGS.into_iter().chain([own.as_str()]).collect();
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let http = Client::builder(TokioExecutor::new()).build_http();
        let base = format!("http://127.0.0.1:{port}/session");
        let until = Instant::now() + PATIENCE;
        let session = loop {
            match call(&http, Method::POST, &base, Some(&wanted)).await {
                Ok(answer) => break answer["sessionId"].as_str().expect("a session has an id").to_owned(),
                Err(error) if Instant::now() > until => panic!("no browser: {error}\n{}", driver.output()),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        };
        Browser { http, session: format!("{base}/{session}"), _driver: driver, _profile: profile }
    }

    /// Ends it.
    pub async fn close(self) {
        let _ = call(&self.http, Method::DELETE, &self.session, None).await;
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let address = format!("{}{path}", self.session);
        call(&self.http, Method::POST, &address, Some(&body)).await.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    async fn devtools(&self, command: &str, parameters: Value) -> Value {
        self.post("/goog/cdp/execute", json!({ "cmd": command, "params": parameters })).await
    }

    /// Goes to an address.
    pub async fn goto(&self, url: &str) {
        self.post("/url", json!({ "url": url })).await;
    }

    /// The value of a script.
    pub async fn run(&self, script: &str) -> Value {
        self.post("/execute/sync", json!({ "script": script, "args": [] })).await
    }

    /// What the page wrote on the console.
    pub async fn complaints(&self) -> Vec<String> {
        let lines = self.post("/se/log", json!({ "type": "browser" })).await;
        let texts = lines.as_array().into_iter().flatten().filter_map(|line| line["message"].as_str());
        texts.map(str::to_owned).collect()
    }

    /// Makes the window look like this.
    pub async fn look(&self, look: &Look) {
        let is_phone = look.width < 700;
        let size =
            json!({ "width": look.width, "height": look.height, "deviceScaleFactor": look.scale, "mobile": is_phone });
        self.devtools("Emulation.setDeviceMetricsOverride", size).await;
        let scheme = if look.is_dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme },
            { "name": "prefers-reduced-motion", "value": "reduce" }]);
        self.devtools("Emulation.setEmulatedMedia", json!({ "features": features })).await;
    }

    /// A picture of the window, or of the whole page.
    pub async fn picture(&self, look: &Look, is_whole: bool) -> Vec<u8> {
        let mut wanted = json!({ "format": "png" });
        if is_whole {
            let height = self.run("return document.documentElement.scrollHeight").await.as_u64().unwrap_or(0);
            let height = height.clamp(u64::from(look.height), u64::from(look.height_max));
            // Bars that stay at the edge of the window are where they are in a window of this height.
            let high = Look { height: height as u32, ..*look };
            self.look(&high).await;
            wanted["captureBeyondViewport"] = json!(false);
        }
        tokio::time::sleep(Duration::from_millis(60)).await;
        let answer = self.devtools("Page.captureScreenshot", wanted).await;
        BASE64_STANDARD.decode(answer["data"].as_str().expect("a picture is text")).expect("it is base64")
    }

    /// Pictures beside each other, as one.
    pub async fn sheet(&self, pictures: &[PathBuf], columns: u32, width: u32, to: &Path) {
        let cells: String = pictures
            .iter()
            .map(|path| {
                let name = path.file_stem().unwrap_or_default().to_string_lossy();
                format!("<figure><figcaption>{name}</figcaption><img src=\"file://{}\"></figure>", path.display())
            })
            .collect();
        let html = format!(
            "<!doctype html><style>body{{margin:0;background:#888;font:12px sans-serif;display:grid;gap:6px;\
             grid-template-columns:repeat({columns},{width}px);align-items:start}}figure{{margin:0}}img{{width:100%;\
             display:block}}figcaption{{background:#ff0;padding:1px 4px}}</style>{cells}"
        );
        let page = to.with_extension("html");
        std::fs::write(&page, html).expect("the sheet is written");
        let wide = columns * (width + 6);
        let look = Look { width: wide, height: 100, height_max: 4_000, is_dark: false, scale: 1.0 };
        self.look(&look).await;
        self.goto(&format!("file://{}", page.display())).await;
        std::fs::write(to, self.picture(&look, true).await).expect("the sheet is written");
        let _ = std::fs::remove_file(page);
    }
}

async fn call(
    http: &Client<HttpConnector, Full<Bytes>>,
    method: Method,
    address: &str,
    body: Option<&Value>,
) -> Result<Value, String> {
    let body = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
    let request = Request::builder().method(method).uri(address).header("content-type", "application/json");
    let request = request.body(Full::new(body)).map_err(|error| error.to_string())?;
    let answer = http.request(request).await.map_err(|error| error.to_string())?;
    let is_good = answer.status().is_success();
    let body = answer.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
    let mut answer: Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
    if is_good { Ok(answer["value"].take()) } else { Err(answer["value"]["message"].to_string()) }
}
