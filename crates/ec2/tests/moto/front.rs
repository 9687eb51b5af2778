//! What stands before moto: remembers fleets by their client token, and falls short, refuses or forgets when a test says so.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

/// How one call goes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mood {
    /// A fleet gets only so many machines, and this reason for the others.
    HasOnly(u32, &'static str),
    /// Is refused with this code.
    Refuses(u16, &'static str),
    /// Is done, and its answer is lost.
    LosesTheAnswer,
    /// Does not show any instance yet.
    ShowsNothing,
}

/// The parameters of a call.
pub type Call = BTreeMap<String, String>;

#[derive(Default)]
struct Seen {
    calls: Vec<Call>,
    moods: HashMap<String, VecDeque<Mood>>,
    /// Fleets by client token: what was asked for, and the answer.
    fleets: HashMap<String, (Call, Bytes)>,
}

#[derive(Clone)]
pub struct Front {
    moto: String,
    client: Client<HttpConnector, Full<Bytes>>,
    seen: Arc<Mutex<Seen>>,
}

impl Front {
    /// A front for the moto at this address, and its own address.
    pub async fn start(moto: String) -> (Front, String) {
        let client = Client::builder(TokioExecutor::new()).build_http();
        let front = Front { moto, client, seen: Arc::default() };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let app = axum::Router::new().fallback(answer).with_state(front.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        (front, address)
    }

    /// The next call of this action goes like this.
    pub fn next(&self, action: &str, mood: Mood) {
        self.seen.lock().unwrap().moods.entry(action.into()).or_default().push_back(mood);
    }

    /// Every call of an action, in order.
    pub fn calls(&self, action: &str) -> Vec<Call> {
        let seen = self.seen.lock().unwrap();
        seen.calls.iter().filter(|call| call["Action"] == action).cloned().collect()
    }

    async fn forward(&self, parts: &axum::http::request::Parts, body: String) -> (StatusCode, Bytes) {
        let mut request = axum::http::Request::builder().method("POST").uri(format!("{}/", self.moto));
        for name in ["authorization", "content-type", "x-amz-date"] {
            if let Some(value) = parts.headers.get(name) {
                request = request.header(name, value);
            }
        }
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        let answer = self.client.request(request).await.unwrap();
        let status = answer.status();
        (status, answer.into_body().collect().await.unwrap().to_bytes())
    }
}

async fn answer(State(front): State<Front>, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    let mut call = decoded(&body);
    let action = call["Action"].clone();
    let token = call.get("ClientToken").cloned();
    let (mood, known) = {
        let mut seen = front.seen.lock().unwrap();
        seen.calls.push(call.clone());
        let mood = seen.moods.get_mut(&action).and_then(VecDeque::pop_front);
        (mood, token.as_ref().and_then(|token| seen.fleets.get(token)).cloned())
    };
    if let Some((before, answer)) = known {
        return match before == call {
            true => answer.into_response(),
            false => refusal(400, "IdempotentParameterMismatch"),
        };
    }
    let asked = call.clone();
    match &mood {
        Some(Mood::Refuses(status, code)) => return refusal(*status, code),
        Some(Mood::ShowsNothing) => {
            return "<DescribeInstancesResponse><reservationSet/></DescribeInstancesResponse>".into_response();
        }
        Some(Mood::HasOnly(count, _)) => {
            call.insert("TargetCapacitySpecification.TotalTargetCapacity".into(), count.to_string());
        }
        Some(Mood::LosesTheAnswer) | None => {}
    }
    let (status, mut answer) = match &mood {
        Some(Mood::HasOnly(0, _)) => (StatusCode::OK, "<CreateFleetResponse></CreateFleetResponse>".into()),
        _ => front.forward(&parts, encoded(&call)).await,
    };
    if let Some(Mood::HasOnly(_, code)) = mood {
        let errors = format!(
            "<errorSet><item><errorCode>{code}</errorCode><errorMessage>so it is</errorMessage></item></errorSet>"
        );
        let text = String::from_utf8(answer.to_vec()).unwrap();
        // What moto says of errors is that there are none.
        let text = text.replace("<errorSet/>", "").replace("<errorSet></errorSet>", "");
        answer = text.replace("</CreateFleetResponse>", &format!("{errors}</CreateFleetResponse>")).into();
    }
    if let (Some(token), true) = (token, status.is_success()) {
        front.seen.lock().unwrap().fleets.insert(token, (asked, answer.clone()));
    }
    match mood {
        Some(Mood::LosesTheAnswer) => refusal(503, "Unavailable"),
        _ => (status, answer).into_response(),
    }
}

fn refusal(status: u16, code: &str) -> Response {
    let body = format!(
        "<Response><Errors><Error><Code>{code}</Code><Message>so it is</Message></Error></Errors><RequestID>1</RequestID></Response>"
    );
    (StatusCode::from_u16(status).unwrap(), body).into_response()
}

fn decoded(body: &str) -> Call {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (plain(name), plain(value))
    };
    body.split('&').map(pair).collect()
}

fn plain(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.bytes());
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits: String = rest.by_ref().take(2).map(char::from).collect();
                u8::from_str_radix(&digits, 16).unwrap()
            }
            b'+' => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).unwrap()
}

fn encoded(call: &Call) -> String {
    let hex = |text: &String| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let pair = |(name, value): (&String, &String)| format!("{}={}", hex(name), hex(value));
    call.iter().map(pair).collect::<Vec<_>>().join("&")
}
