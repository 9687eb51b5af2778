//! A receiver of webhooks that answers as a test says, and what tests ask of a server.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::response::IntoResponse;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use baton::proto::{CreateWebhook, WebhookDelivery, WebhookFilter, WebhookView};
use baton_core::webhooks::signature;
use baton_server::Settings;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::harness::{On, Server, eventually};

/// A call as the receiver saw it.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Call {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    pub(super) fn id(&self) -> &str {
        self.header("webhook-id")
    }

    pub(super) fn event(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(super) fn kind(&self) -> String {
        self.event()["type"].as_str().unwrap().to_owned()
    }

    /// Whether one of the signatures is made with this secret.
    pub(super) fn is_signed_with(&self, secret: &str) -> bool {
        let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
        let at = self.header("webhook-timestamp").parse().unwrap();
        let signed = format!("v1,{}", STANDARD.encode(signature(&key, self.id(), at, &self.body)));
        self.header("webhook-signature").split(' ').any(|one| one == signed)
    }
}

pub(super) type Scripted = (u16, Vec<(&'static str, String)>);

#[derive(Debug)]
pub(super) struct Desk {
    pub(super) calls: Mutex<Vec<Call>>,
    /// What is answered next; 200 when nothing is left.
    pub(super) answers: Mutex<VecDeque<Scripted>>,
    /// Each answer takes one.
    pub(super) permits: Semaphore,
}

/// A receiver of webhooks.
#[derive(Clone)]
pub(super) struct Receiver {
    pub(super) address: SocketAddr,
    pub(super) desk: Arc<Desk>,
}

impl Receiver {
    pub(super) async fn start() -> Receiver {
        Receiver::with_permits(Semaphore::MAX_PERMITS).await
    }

    /// One that does not answer before it is let.
    pub(super) async fn with_permits(permits: usize) -> Receiver {
        let desk = Desk { calls: Mutex::default(), answers: Mutex::default(), permits: Semaphore::new(permits) };
        let desk = Arc::new(desk);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(take).with_state(desk.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Receiver { address, desk }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/hook?token=t0ken", self.address)
    }

    pub(super) fn answer(&self, status: u16, headers: &[(&'static str, &str)]) {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self.desk.answers.lock().unwrap().push_back((status, headers));
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        self.desk.calls.lock().unwrap().clone()
    }

    pub(super) async fn called(&self, times: usize) -> Vec<Call> {
        eventually("the receiver is called", async || self.calls().len() >= times).await;
        let calls = self.calls();
        assert_eq!(calls.len(), times, "{calls:?}");
        calls
    }
}

pub(super) async fn take(State(desk): State<Arc<Desk>>, request: Request) -> impl IntoResponse {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let path = head.uri.path_and_query().unwrap().to_string();
    desk.calls.lock().unwrap().push(Call { path, headers: head.headers, body });
    desk.permits.acquire().await.unwrap().forget();
    let (status, headers) = desk.answers.lock().unwrap().pop_front().unwrap_or((200, vec![]));
    let mut answered = (StatusCode::from_u16(status).unwrap(), format!("said {status}")).into_response();
    for (name, value) in headers {
        answered.headers_mut().insert(name, value.parse().unwrap());
    }
    answered
}

pub(super) fn local(settings: &mut Settings) {
    settings.webhook_allow = "127.0.0.1".into();
}

pub(super) async fn server(on: On) -> Server {
    Server::with(on, local).await
}

pub(super) fn webhook(name: &str, url: &str, kinds: &[&str]) -> CreateWebhook {
    CreateWebhook {
        name: name.into(),
        namespace: Some("default".into()),
        url: url.into(),
        filter: filter(kinds),
        secret: None,
    }
}

pub(super) fn filter(kinds: &[&str]) -> WebhookFilter {
    WebhookFilter { kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(), ..WebhookFilter::default() }
}

/// A webhook that hears of submitted runs.
pub(super) async fn made(server: &Server, receiver: &Receiver) -> WebhookView {
    server.client.create_webhook(&webhook("ci", &receiver.url(), &["run.submitted"])).await.unwrap()
}

pub(super) async fn deliveries(server: &Server, id: &str) -> Vec<WebhookDelivery> {
    server.client.webhook_deliveries(id, None, None, None).await.unwrap().deliveries
}

/// The delivery that was made first, once it has had so many attempts of which the outcome is known.
pub(super) async fn attempted(server: &Server, id: &str, attempts: usize) -> WebhookDelivery {
    let first = async || deliveries(server, id).await.pop();
    let has_been = async || first().await.is_some_and(|delivery| delivery.attempts.len() >= attempts);
    eventually("an attempt is written down", has_been).await;
    first().await.unwrap()
}
