//! Sessions over the wire: who gets in, what a browser is told to keep, and what ends it.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton::Client;
use baton::proto::{CreateKey, CreatedKey};
use baton_server::entropy::SeededEntropy;
use baton_server::{App, Settings, serve};
use baton_store::Clock;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// The admin key of every server here.
const KEY: &str = "an-admin-key-for-the-tests";
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// What a browser asks for when somebody goes to an address.
const BROWSER: (&str, &str) = ("accept", "text/html,application/xhtml+xml,*/*;q=0.8");

struct Site {
    client: Client,
    address: SocketAddr,
    clock: Clock,
    /// What browsers call it.
    host: Option<&'static str>,
    stop: CancellationToken,
    raw: legacy::Client<HttpConnector, Full<Bytes>>,
    _home: Box<dyn Any + Send + Sync>,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[derive(Debug)]
struct Answer {
    status: u16,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    /// The cookies it sets, with all that is said of them.
    fn cookies(&self) -> Vec<String> {
        self.headers.get_all("set-cookie").iter().map(|value| value.to_str().unwrap().to_owned()).collect()
    }

    /// The one session that it begins, as a browser sends it back.
    fn session(&self) -> String {
        match self.cookies().as_slice() {
            [cookie] => cookie.split(';').next().unwrap().to_owned(),
            other => panic!("{other:?} in {self:?}"),
        }
    }
}

impl Site {
    async fn start() -> Site {
        Site::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut Settings)) -> Site {
        let files = tempfile::tempdir().unwrap();
        let mut settings = Settings { data: files.path().to_owned(), ..Settings::default() };
        change(&mut settings);
        Site::serve(settings, Clock::manual(1_700_000_000_000), Box::new(files)).await
    }

    async fn serve(mut settings: Settings, clock: Clock, home: Box<dyn Any + Send + Sync>) -> Site {
        settings.api_key = Some(KEY.into());
        settings.master_key = Some(baton_core::token::master_key([7; 32]).into());
        settings.storage_free_bytes_min = 0;
        let store = baton_server::open_store(&settings, clock.clone()).await.unwrap();
        let storage = baton_server::open_storage(&settings).unwrap();
        let app = App::build(store, storage, settings, Arc::new(SeededEntropy::new(7))).await.unwrap();
        app.use_dashboard(baton_web::dashboard);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(serve(app, listener, stop.clone().cancelled_owned()));
        let client = Client::new(&format!("http://{address}"), KEY).unwrap();
        let raw = legacy::Client::builder(TokioExecutor::new()).build_http();
        Site { client, address, clock, host: None, stop, raw, _home: home }
    }

    async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Response<Incoming> {
        let mut request = Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        for (name, value) in headers.iter().copied().chain(self.host.map(|host| ("host", host))) {
            request = request.header(name, value);
        }
        self.raw.request(request.body(Full::new(Bytes::from(body.to_owned()))).unwrap()).await.unwrap()
    }

    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let (head, body) = self.ask(method, path, headers, body).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body = String::from_utf8_lossy(&body).into_owned();
        Answer { status: head.status.as_u16(), headers: head.headers, body }
    }

    async fn sign_in(&self, key: &str) -> String {
        let answer = self.send("POST", "/signin", &[], &format!("key={key}")).await;
        assert_eq!((answer.status, answer.header("location")), (303, "/"), "{answer:?}");
        answer.session()
    }

    /// Whether a browser with this cookie sees pages.
    async fn lets_in(&self, cookie: &str) -> bool {
        let answer = self.send("GET", "/more", &[BROWSER, ("cookie", cookie)], "").await;
        match answer.status {
            200 => true,
            303 => false,
            _ => panic!("{answer:?}"),
        }
    }

    /// The cookie that has a session here.
    fn cookie(&self) -> String {
        format!("baton_session_{}", self.address.port())
    }

    /// What the forms of a session show.
    async fn csrf(&self, cookie: &str) -> String {
        let page = self.send("GET", "/more", &[BROWSER, ("cookie", cookie)], "").await.body;
        let csrf = page.split("name=\"csrf\" value=\"").nth(1).and_then(|rest| rest.split('"').next());
        csrf.unwrap_or_else(|| panic!("no form in {page}")).to_owned()
    }

    async fn key(&self, scopes: &[&str]) -> CreatedKey {
        let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        let key = CreateKey { name: "somebody".into(), scopes, namespace: None, expires_in_ms: None };
        self.client.create_key(&key).await.unwrap()
    }
}

async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < until, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_key_becomes_a_cookie_that_no_script_reads() {
    let site = Site::with(|settings| settings.trusted_proxies = "127.0.0.1".into()).await;
    let plain = site.send("POST", "/signin", &[], &format!("key={KEY}&next=%2Fmore")).await;
    assert_eq!((plain.status, plain.header("location")), (303, "/more"));
    let [cookie] = plain.cookies().try_into().unwrap();
    assert!(!cookie.contains(KEY), "{cookie}");
    let (token, rest) = cookie.split_once("; ").unwrap();
    assert!(token.starts_with(&format!("{}=bs_", site.cookie())), "{cookie}");
    assert_eq!(rest, "Path=/; HttpOnly; SameSite=Lax; Max-Age=2592000");
    // Where a trusted proxy says that it was spoken to over TLS.
    let proxied = ("x-forwarded-proto", "https");
    let secure = site.send("POST", "/signin", &[proxied], &format!("key={KEY}")).await;
    let [cookie] = secure.cookies().try_into().unwrap();
    let (token, rest) = cookie.split_once("; ").unwrap();
    assert!(token.starts_with(&format!("__Host-{}=bs_", site.cookie())), "{cookie}");
    assert_eq!(rest, "Path=/; HttpOnly; SameSite=Lax; Max-Age=2592000; Secure");
    let seen = site.send("GET", "/more", &[BROWSER, proxied, ("cookie", token)], "").await;
    assert_eq!(seen.status, 200);
    // A cookie that an unencrypted page could have set does not count there.
    let lent = token.trim_start_matches("__Host-");
    let seen = site.send("GET", "/more", &[BROWSER, proxied, ("cookie", lent)], "").await;
    assert_eq!(seen.status, 303);
    // Anybody can say so who is no trusted proxy.
    let open = Site::start().await;
    let answer = open.send("POST", "/signin", &[proxied], &format!("key={KEY}")).await;
    assert!(answer.session().starts_with("baton_session_"), "{answer:?}");
}

#[tokio::test]
async fn a_session_that_somebody_else_chose_is_not_taken() {
    let site = Site::start().await;
    let chosen = format!("{}=bs_chosen", site.cookie());
    let answer = site.send("POST", "/signin", &[("cookie", &chosen)], &format!("key={KEY}")).await;
    assert_ne!(answer.session(), chosen);
    assert!(!site.lets_in(&chosen).await);
    // Nor one that is real: it ends, and anyone else who has it sees nothing.
    let reader = site.key(&["read"]).await;
    let theirs = site.sign_in(&reader.key).await;
    let answer = site.send("POST", "/signin", &[("cookie", &theirs)], &format!("key={KEY}")).await;
    assert!(site.lets_in(&answer.session()).await);
    assert!(!site.lets_in(&theirs).await);
}

#[tokio::test]
async fn forms_come_from_our_own_pages() {
    let site = Site::start().await;
    let (own, other) = (site.sign_in(KEY).await, site.sign_in(KEY).await);
    let (csrf, foreign) = (site.csrf(&own).await, site.csrf(&other).await);
    assert_ne!(csrf, foreign);
    let host = site.address.to_string();
    let origin = format!("http://{host}");
    for (headers, shown) in [
        (&[][..], ""),
        (&[], "csrf=no"),
        (&[], &format!("csrf={foreign}")),
        (&[("sec-fetch-site", "cross-site")], &format!("csrf={csrf}")),
        (&[("sec-fetch-site", "same-site")], &format!("csrf={csrf}")),
        (&[("origin", "https://evil.example")], &format!("csrf={csrf}")),
        (&[("origin", "null")], &format!("csrf={csrf}")),
    ] {
        let headers: Vec<_> = headers.iter().copied().chain([("cookie", own.as_str())]).collect();
        let answer = site.send("POST", "/signout", &headers, shown).await;
        assert_eq!(answer.status, 403, "{headers:?} {shown}");
        assert!(site.lets_in(&own).await);
    }
    // Nobody is signed in as somebody else by another page.
    for header in [("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")] {
        let answer = site.send("POST", "/signin", &[header], &format!("key={KEY}")).await;
        assert_eq!((answer.status, answer.cookies()), (403, Vec::new()), "{header:?}");
    }
    let headers = [("cookie", own.as_str()), ("origin", &origin), ("sec-fetch-site", "same-origin")];
    let out = site.send("POST", "/signout", &headers, &format!("csrf={csrf}")).await;
    assert_eq!((out.status, out.header("location")), (303, "/signin"));
    assert_eq!(out.cookies(), [format!("{}=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0", site.cookie())]);
    assert!(!site.lets_in(&own).await && site.lets_in(&other).await);
}

#[tokio::test]
async fn a_wrong_key_is_told_in_one_sentence() {
    let site = Site::start().await;
    let key = site.key(&["read"]).await;
    site.client.revoke_key(&key.id).await.unwrap();
    let mut said = Vec::new();
    for wrong in [key.key.as_str(), "bk_nobody", "%00%ff"] {
        let answer = site.send("POST", "/signin", &[BROWSER], &format!("key={wrong}&next=%2Fmore")).await;
        assert_eq!((answer.status, answer.cookies()), (403, Vec::new()));
        assert!(answer.body.contains("This key is not good here.") && !answer.body.contains(wrong), "{}", answer.body);
        assert!(answer.body.contains("autofocus") && answer.body.contains(r#"value="/more""#), "{}", answer.body);
        said.push(answer.body);
    }
    assert!(said.iter().all(|page| *page == said[0]), "nobody learns which keys there are");
    assert_eq!(site.send("POST", "/signin", &[BROWSER], "key=").await.status, 422);
}

#[tokio::test]
async fn one_lands_where_one_wanted_to_go_and_nowhere_else() {
    let site = Site::start().await;
    let asked = site.send("GET", "/more?a=%C3%A4&b=1%262", &[BROWSER], "").await;
    assert_eq!(asked.status, 303);
    let form = site.send("GET", asked.header("location"), &[BROWSER], "").await;
    assert!(form.body.contains(r#"name="next" value="/more?a=%C3%A4&amp;b=1%262""#), "{}", form.body);
    for (next, lands) in [
        ("%2Fmore%3Fa%3D%25C3%25A4", "/more?a=%C3%A4"),
        ("https%3A%2F%2Fevil.example", "/"),
        ("%2F%2Fevil.example", "/"),
        ("%2F%5Cevil.example", "/"),
        ("%2F%09%2Fevil.example", "/"),
        ("javascript%3Aalert(1)", "/"),
        ("%2F%0D%0Aset-cookie%3A%20a%3Db", "/"),
        ("evil.example", "/"),
        ("", "/"),
    ] {
        let answer = site.send("POST", "/signin", &[], &format!("key={KEY}&next={next}")).await;
        assert_eq!((answer.status, answer.header("location")), (303, lands), "{next}");
        assert_eq!(answer.cookies().len(), 1);
        let form = site.send("GET", &format!("/signin?next={next}"), &[BROWSER], "").await;
        assert!(!form.body.contains("evil") && !form.body.contains("javascript:"), "{}", form.body);
    }
}

#[tokio::test]
async fn a_link_signs_in_once_and_only_when_somebody_presses_the_button() {
    let site = Site::start().await;
    let link = site.client.create_signin_link().await.unwrap();
    // Programs look at links before people do.
    for method in ["GET", "HEAD", "GET"] {
        let looked = site.send(method, &link.path, &[BROWSER], "").await;
        assert_eq!((looked.status, looked.cookies()), (200, Vec::new()), "{method}");
        assert_eq!(looked.header("referrer-policy"), "no-referrer");
    }
    let elsewhere = site.send("POST", &link.path, &[("sec-fetch-site", "cross-site")], "").await;
    assert_eq!((elsewhere.status, elsewhere.cookies()), (403, Vec::new()));
    let first = site.send("POST", &link.path, &[], "").await;
    assert_eq!((first.status, first.header("location")), (303, "/"));
    assert!(site.lets_in(&first.session()).await);
    let late = site.client.create_signin_link().await.unwrap();
    site.clock.advance(600_000);
    for path in [link.path.as_str(), &late.path, "/signin/once/bi_nobody", "/signin/once/%00%0A"] {
        let again = site.send("POST", path, &[BROWSER], "").await;
        assert_eq!((again.status, again.cookies()), (403, Vec::new()), "{path}");
        assert!(again.body.contains("This link is not good any more."), "{}", again.body);
    }
}

#[tokio::test]
async fn a_link_leads_to_a_page_of_this_server_and_to_no_other() {
    let site = Site::start().await;
    for (next, page) in [("/runs/0199?step=4", "/runs/0199"), ("//evil.example", "/"), ("https://evil.example", "/")] {
        let link = site.client.create_signin_link().await.unwrap();
        let signed_in = site.send("POST", &format!("{}?next={next}", link.path), &[], "").await;
        let location = signed_in.header("location").to_owned();
        assert!(signed_in.status == 303 && location.split('?').next() == Some(page), "{next}: {location}");
    }
}

#[tokio::test]
async fn guessing_is_slowed_down() {
    let site = Site::with(|settings| settings.refusals_per_second = 2).await;
    let mut statuses = Vec::new();
    for guess in 0..20 {
        statuses.push(site.send("POST", "/signin", &[BROWSER], &format!("key=bk_{guess}")).await.status);
    }
    assert!(statuses.starts_with(&[403, 403]) && statuses.contains(&429), "{statuses:?}");
    assert_eq!(site.send("POST", "/signin/once/bi_guess", &[BROWSER], "").await.status, 429);
    // A caller with a good key is let in all the same.
    let cookie = site.sign_in(KEY).await;
    assert!(site.lets_in(&cookie).await);
    let log = site.client.audit_log(None, None).await.unwrap().lines;
    let refused = log.iter().filter(|line| line.action == "credential.refused").count();
    assert!((2..15).contains(&refused), "{refused}");
    assert!(log.iter().any(|line| line.action == "session.create" && line.actor == "settings"));
}

/// The events that a page is sent while it is followed. Nothing when the stream has ended.
async fn next_event(stream: &mut Incoming) -> Option<String> {
    let frame = tokio::time::timeout(PATIENCE, stream.frame()).await.expect("nothing came for long")?;
    frame.ok().and_then(|frame| frame.into_data().ok()).map(|data| String::from_utf8_lossy(&data).into_owned())
}

#[tokio::test]
async fn a_session_and_what_it_follows_end_with_the_key() {
    let site = Site::start().await;
    let key = site.key(&["read"]).await;
    let cookie = site.sign_in(&key.key).await;
    let answer = site.ask("GET", "/live?at=/more", &[("cookie", &cookie)], "").await;
    assert_eq!(answer.status(), 200);
    let mut stream = answer.into_body();
    assert!(next_event(&mut stream).await.is_some());
    let other = site.sign_in(KEY).await;
    site.client.revoke_key(&key.id).await.unwrap();
    assert!(!site.lets_in(&cookie).await && site.lets_in(&other).await);
    let ended = async { while next_event(&mut stream).await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(15), ended).await.expect("the stream goes on without a key");
}

#[tokio::test]
async fn an_old_token_is_replaced_and_forms_stay_good() {
    let site = Site::start().await;
    let cookie = site.sign_in(KEY).await;
    let csrf = site.csrf(&cookie).await;
    site.clock.advance(3_600_000);
    // What the server remembers of a session is a few seconds old.
    let mut renewed = None;
    eventually("a new token", async || {
        let page = site.send("GET", "/more", &[BROWSER, ("cookie", &cookie)], "").await;
        assert_eq!(page.status, 200);
        renewed = page.cookies().pop();
        renewed.is_some()
    })
    .await;
    let renewed = renewed.unwrap();
    let new = renewed.split(';').next().unwrap();
    assert!(new.starts_with("baton_session_") && new != cookie && renewed.contains("; HttpOnly; SameSite=Lax; "));
    assert_eq!(site.csrf(new).await, csrf);
    assert!(site.lets_in(&cookie).await, "another tab is on its way with it");
    site.clock.advance(60_000);
    eventually("the old token is over", async || !site.lets_in(&cookie).await).await;
    let out = site.send("POST", "/signout", &[("cookie", new)], &format!("csrf={csrf}&all=1")).await;
    assert_eq!(out.status, 303);
    assert!(!site.lets_in(new).await);
}

#[tokio::test]
async fn two_servers_share_sessions() {
    let database = baton_testkit::database().await;
    let start = async || {
        let files = tempfile::tempdir().unwrap();
        let url = Some(database.url().to_owned());
        let settings = Settings {
            data: files.path().to_owned(),
            database_url: url,
            database_connections: 4,
            ..Settings::default()
        };
        // Both are behind one address.
        let mut site = Site::serve(settings, Clock::Real, Box::new(files)).await;
        site.host = Some("baton.example");
        site
    };
    let (here, there) = (start().await, start().await);
    let cookie = here.sign_in(KEY).await;
    assert!(there.lets_in(&cookie).await);
    let csrf = there.csrf(&cookie).await;
    assert_eq!(csrf, here.csrf(&cookie).await, "a form of one server is good at the other");
    // A link of one is used at the other, once.
    let link = here.client.create_signin_link().await.unwrap();
    let used = there.send("POST", &link.path, &[], "").await;
    assert!(here.lets_in(&used.session()).await);
    assert_eq!(here.send("POST", &link.path, &[BROWSER], "").await.status, 403);
    let out = there.send("POST", "/signout", &[("cookie", &cookie)], &format!("csrf={csrf}")).await;
    assert_eq!(out.status, 303);
    assert!(!there.lets_in(&cookie).await);
    eventually("signed out at the other server", async || !here.lets_in(&cookie).await).await;
    assert!(here.lets_in(&used.session()).await);
    // A key that is revoked at one ends its session at the other.
    let key = here.key(&["read"]).await;
    let cookie = there.sign_in(&key.key).await;
    assert!(there.lets_in(&cookie).await);
    here.client.revoke_key(&key.id).await.unwrap();
    eventually("signed out with the key", async || !there.lets_in(&cookie).await).await;
}

#[tokio::test]
async fn people_are_led_to_the_sign_in_and_scripts_are_told() {
    let site = Site::start().await;
    assert_eq!(site.send("GET", "/", &[BROWSER], "").await.header("location"), "/signin");
    assert_eq!(
        site.send("GET", "/more?ns=a", &[BROWSER], "").await.header("location"),
        "/signin?next=%2Fmore%3Fns%3Da"
    );
    for (method, path, headers) in [
        ("GET", "/live?at=/", &[("accept", "text/event-stream")][..]),
        ("HEAD", "/live?at=/", &[("accept", "application/json")]),
        ("GET", "/more", &[("accept", "*/*"), ("sec-fetch-mode", "cors")]),
        ("GET", "/more", &[]),
        ("POST", "/signout", &[BROWSER]),
    ] {
        let answer = site.send(method, path, headers, "").await;
        assert_eq!((answer.status, answer.cookies()), (401, Vec::new()), "{method} {path} {headers:?}");
    }
    let nowhere = site.send("GET", "/no/such/page", &[BROWSER], "").await;
    assert_eq!((nowhere.status, nowhere.header("content-type")), (404, "text/html; charset=utf-8"));
    assert!(nowhere.body.contains(r#"href="/""#), "{}", nowhere.body);
    for headers in [&[("accept", "application/json")][..], &[("accept", "*/*")], &[]] {
        let nowhere = site.send("GET", "/no/such/route", headers, "").await;
        assert_eq!((nowhere.status, nowhere.header("content-type")), (404, "application/json"), "{headers:?}");
        assert!(nowhere.body.contains("not_found"), "{}", nowhere.body);
    }
}

#[tokio::test]
async fn nobody_frames_a_page_or_guesses_what_it_is() {
    let site = Site::start().await;
    let cookie = site.sign_in(KEY).await;
    let page = site.send("GET", "/more", &[BROWSER, ("cookie", &cookie)], "").await.body;
    let asset = page.split("href=\"/assets/").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let asset = format!("/assets/{asset}");
    let link = site.client.create_signin_link().await.unwrap().path;
    for (method, path, cookie, body) in [
        ("GET", "/", cookie.as_str(), ""),
        ("GET", "/more", &cookie, ""),
        ("GET", "/", "", ""),
        ("GET", "/live?at=/", "", ""),
        ("GET", &asset, "", ""),
        ("GET", "/assets/x/no.css", "", ""),
        ("GET", "/signin", "", ""),
        ("POST", "/signin", "", "key=no"),
        ("POST", "/signin", "", &format!("key={KEY}")),
        ("GET", &link, "", ""),
        ("POST", "/signin/once/no", "", ""),
        ("POST", "/signout", &cookie, ""),
        ("GET", "/no/such/page", &cookie, ""),
    ] {
        let answer = site.send(method, path, &[BROWSER, ("cookie", cookie)], body).await;
        let at = format!("{method} {path}: {}", answer.status);
        let policy = answer.header("content-security-policy");
        for rule in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"] {
            assert!(policy.contains(rule), "{at}: {policy:?}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{at}: {policy}");
        assert_eq!(answer.header("x-frame-options"), "DENY", "{at}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{at}");
        assert!(["same-origin", "no-referrer"].contains(&answer.header("referrer-policy")), "{at}");
        if !path.starts_with("/assets/") {
            assert!(!answer.body.contains("<script>") && !answer.body.contains(" style="), "{at}: {}", answer.body);
            assert_eq!(answer.header("cache-control"), "no-store", "{at}");
        }
    }
}
