//! A stand-in of GitHub's API for self-hosted runners, strict about what clients have to send.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use serde_json::{Value, json};

/// The token it knows.
pub const GITHUB_TOKEN: &str = "ghp_a-token-for-the-tests";
const API: &str = "/api/v3";

/// A runner that was registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitHubRunner {
    /// GitHub's number for it.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Vec<String>,
    /// `repos/acme/shop` or `orgs/acme`.
    pub scope: String,
    /// It has a job.
    pub busy: bool,
}

/// How one call goes instead of as it should.
#[derive(Clone, Debug)]
pub enum GitHubFault {
    /// It is answered with this, and nothing is done.
    Answer(u16, Vec<(&'static str, String)>, &'static str),
    /// It is carried out, and the answer gets lost.
    Lost,
}

#[derive(Debug, Default)]
struct State {
    runners: Vec<GitHubRunner>,
    next: u64,
    calls: Vec<String>,
    faults: VecDeque<GitHubFault>,
    /// How the next looks go whether anything is said at all.
    probe_faults: VecDeque<GitHubFault>,
    /// It is an old server, which makes no configurations.
    is_old: bool,
}

/// The stand-in. It lives as long as the process.
#[derive(Clone, Debug)]
pub struct GitHub {
    /// Its address, as `https://github.com` is GitHub's.
    pub url: String,
    state: Arc<Mutex<State>>,
}

impl GitHub {
    /// Starts one.
    ///
    /// # Panics
    /// When there is no free port.
    pub fn start() -> GitHub {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("a socket of ours");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let github = GitHub { url, state: Arc::default() };
        let served = github.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a socket of ours");
                loop {
                    let Ok((socket, _)) = listener.accept().await else { continue };
                    let github = served.clone();
                    let answer = service_fn(move |request| {
                        let github = github.clone();
                        async move { github.answer(request).await }
                    });
                    tokio::spawn(async move {
                        let server = Builder::new(TokioExecutor::new());
                        let _ = server.serve_connection(TokioIo::new(socket), answer).await;
                    });
                }
            });
        });
        github
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().expect("nobody panics while holding it"))
    }

    /// The runners it has, in the order in which they were registered.
    pub fn runners(&self) -> Vec<GitHubRunner> {
        self.with(|state| state.runners.clone())
    }

    /// Registers a runner behind everybody's back.
    pub fn add(&self, scope: &str, name: &str, busy: bool) -> u64 {
        self.with(|state| state.add(scope, name, Vec::new(), busy))
    }

    /// A runner has done its one job, and is forgotten.
    pub fn forget(&self, name: &str) {
        self.with(|state| state.runners.retain(|runner| runner.name != name));
    }

    /// The next call that is about one runner goes like this.
    pub fn next(&self, fault: GitHubFault) {
        self.with(|state| state.faults.push_back(fault));
    }

    /// From now on calls go as they should.
    pub fn recover(&self) {
        self.with(|state| state.faults.clear());
    }

    /// The next look whether GitHub says anything at all goes like this.
    pub fn next_probe(&self, fault: GitHubFault) {
        self.with(|state| state.probe_faults.push_back(fault));
    }

    /// It makes no configurations from now on.
    pub fn is_old(&self) {
        self.with(|state| state.is_old = true);
    }

    /// Method and path of every call so far.
    pub fn calls(&self) -> Vec<String> {
        self.with(|state| state.calls.clone())
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let complaint = if header("authorization") != format!("Bearer {GITHUB_TOKEN}") {
            Some((401, "Bad credentials"))
        } else if header("accept") != "application/vnd.github+json" {
            Some((415, "Unsupported 'Accept' header"))
        } else if header("x-github-api-version") != "2022-11-28" {
            Some((400, "The 'X-GitHub-Api-Version' header is not a supported version"))
        } else if header("user-agent").is_empty() {
            Some((
                403,
                "Request forbidden by administrative rules. Please make sure your request has a User-Agent header",
            ))
        } else {
            None
        };
        let method = head.method.as_str();
        // Servers list all runners now and then, whatever a test does.
        let query = head.uri.query().unwrap_or_default();
        let lists_all = method == "GET" && query.contains("&page=") && !query.contains("name=");
        let fault = self.with(|state| {
            state.calls.push(format!("{method} {}", head.uri));
            match (lists_all, query == PROBE) {
                (true, _) => None,
                (false, true) => state.probe_faults.pop_front(),
                (false, false) => state.faults.pop_front(),
            }
        });
        if let Some((status, message)) = complaint {
            return Ok(response(status, &[], &json!({"message": message})));
        }
        if let Some(GitHubFault::Answer(status, headers, message)) = &fault {
            return Ok(response(*status, headers, &json!({"message": message})));
        }
        let (status, answer) = self.with(|state| state.carry_out(method, head.uri.path(), head.uri.query(), &body));
        Ok(match fault {
            Some(_) => response(502, &[], &json!({"message": "the answer got lost"})),
            None => response(status, &[], &answer),
        })
    }
}

fn response(status: u16, headers: &[(&'static str, String)], answer: &Value) -> Response<Full<Bytes>> {
    let body = if answer.is_null() { String::new() } else { answer.to_string() };
    let mut response = Response::builder().status(status).header("content-type", "application/json");
    for (name, value) in headers {
        response = response.header(*name, value);
    }
    response.body(Full::new(Bytes::from(body))).expect("good headers")
}

/// What a server asks for to see whether it is answered.
const PROBE: &str = "per_page=1";

impl State {
    fn add(&mut self, scope: &str, name: &str, labels: Vec<String>, busy: bool) -> u64 {
        self.next += 1;
        self.runners.push(GitHubRunner { id: self.next, name: name.into(), labels, scope: scope.into(), busy });
        self.next
    }

    fn carry_out(&mut self, method: &str, path: &str, query: Option<&str>, body: &[u8]) -> (u16, Value) {
        let none = (404, json!({"message": "Not Found"}));
        let Some((scope, rest)) = path.strip_prefix(API).and_then(|path| path[1..].split_once("/actions/runners"))
        else {
            return none;
        };
        if scope != "repos/acme/shop" && scope != "orgs/acme" {
            return none;
        }
        match (method, rest) {
            ("GET", "") => self.list(scope, query.unwrap_or_default()),
            ("POST", "/generate-jitconfig") if !self.is_old => self.generate(scope, body),
            ("POST", "/registration-token") => {
                (201, json!({"token": "AREGISTRATIONTOKEN", "expires_at": "2030-01-01T00:00:00Z"}))
            }
            ("DELETE", id) => {
                let id = id.trim_start_matches('/').parse().unwrap_or(0);
                let Some(place) = self.runners.iter().position(|it| it.id == id && it.scope == scope) else {
                    return none;
                };
                if self.runners[place].busy {
                    let message = format!("Runner {id} is currently running a job and cannot be deleted.");
                    return (422, json!({"message": message}));
                }
                self.runners.remove(place);
                (204, Value::Null)
            }
            _ => none,
        }
    }

    fn list(&self, scope: &str, query: &str) -> (u16, Value) {
        let parameter = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        let number = |name: &str, default: usize| parameter(name).and_then(|it| it.parse().ok()).unwrap_or(default);
        let (size, page) = (number("per_page", 30), number("page", 1));
        let all = self.runners.iter().filter(|it| it.scope == scope && parameter("name").is_none_or(|n| n == it.name));
        let all: Vec<_> = all.collect();
        let shown = all.iter().skip((page - 1) * size).take(size).map(|runner| {
            let labels: Vec<_> = runner.labels.iter().map(|name| json!({"name": name, "type": "custom"})).collect();
            json!({"id": runner.id, "name": runner.name, "os": "linux", "status": "online", "busy": runner.busy, "labels": labels})
        });
        (200, json!({"total_count": all.len(), "runners": shown.collect::<Vec<_>>()}))
    }

    fn generate(&mut self, scope: &str, body: &[u8]) -> (u16, Value) {
        let wanted: Value = serde_json::from_slice(body).unwrap_or_default();
        let labels: Option<Vec<String>> = wanted["labels"]
            .as_array()
            .and_then(|labels| labels.iter().map(|label| label.as_str().map(str::to_owned)).collect());
        let (Some(name), Some(labels), Some(_)) = (wanted["name"].as_str(), labels, wanted["runner_group_id"].as_u64())
        else {
            return (422, json!({"message": "Validation Failed"}));
        };
        if name.len() > 64 || labels.is_empty() || labels.len() > 100 {
            return (422, json!({"message": "Validation Failed"}));
        }
        if self.runners.iter().any(|runner| runner.name == name) {
            return (
                409,
                json!({"message": format!("Already exists - A runner with the name *{name}* already exists.")}),
            );
        }
        let id = self.add(scope, name, labels, false);
        (201, json!({"runner": {"id": id, "name": name}, "encoded_jit_config": format!("jit-config-of-{id}")}))
    }
}
