//! A client of the workflow service, and words to talk to it briefly.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::time::Duration;

use baton_proto::v1;
use baton_proto::v1::workflow_service_client::WorkflowServiceClient;
use baton_server::Settings;
use futures_util::StreamExt;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::sync::mpsc;
use tonic::service::interceptor::InterceptedService;
use tonic::{Code, Request, Status, Streaming};
use tonic_types::StatusExt;

use crate::harness::{KEY, On, PATIENCE, Server};

/// How calls get there.
pub type Transport = legacy::Client<HttpConnector, tonic::body::Body>;
/// Adds the key.
#[derive(Clone, Debug)]
pub struct WithKey(pub String);

impl tonic::service::Interceptor for WithKey {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if !self.0.is_empty() {
            request.metadata_mut().insert("x-api-key", self.0.parse().unwrap());
        }
        Ok(request)
    }
}

/// A client with a key.
pub type Workflows = WorkflowServiceClient<InterceptedService<Transport, WithKey>>;

pub fn transport() -> Transport {
    let mut connector = HttpConnector::new();
    // Without it, small calls wait for the server's delayed acknowledgements.
    connector.set_nodelay(true);
    legacy::Client::builder(TokioExecutor::new()).http2_only(true).build(connector)
}

pub fn origin(server: &Server) -> http::Uri {
    format!("http://{}", server.address).parse().unwrap()
}

/// A client with this key.
pub fn workflows(server: &Server, key: &str) -> Workflows {
    let inner = InterceptedService::new(transport(), WithKey(key.to_owned()));
    WorkflowServiceClient::with_origin(inner, origin(server))
}

/// A server, and a client with its admin key.
pub struct Rig {
    pub server: Server,
    pub client: Workflows,
}

impl Rig {
    pub async fn start(on: On) -> Rig {
        Rig::of(Server::start(on).await)
    }

    pub async fn with(on: On, change: impl FnOnce(&mut Settings)) -> Rig {
        Rig::of(Server::with(on, change).await)
    }

    pub async fn real(on: On) -> Rig {
        Rig::of(Server::real(on, |_| {}).await)
    }

    pub fn of(server: Server) -> Rig {
        let client = workflows(&server, KEY);
        Rig { server, client }
    }

    /// A client with a key of its own.
    pub async fn client_for(&self, scopes: &[&str], namespace: Option<&str>) -> Workflows {
        let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        let wanted = baton::proto::CreateKey {
            name: "a test's".into(),
            scopes,
            namespace: namespace.map(str::to_owned),
            expires_in_ms: None,
        };
        workflows(&self.server, &self.server.client.create_key(&wanted).await.unwrap().key)
    }

    /// Starts a workflow of the type `order` and returns its run.
    pub async fn begin(&mut self) -> String {
        self.client.start_workflow(order()).await.unwrap().into_inner().run_id
    }

    /// Registers a worker for ten workflows of the types `order` and `child`.
    pub async fn worker(&mut self) -> String {
        self.client.register_worker(worker()).await.unwrap().into_inner().worker_id
    }

    /// Takes a run for the worker, which must be there.
    pub async fn poll(&mut self, worker: &str) -> v1::PollActivityResponse {
        let run = self.client.poll_activity(poll(worker, Duration::ZERO)).await.unwrap().into_inner();
        assert!(!run.run_id.is_empty(), "nothing to take");
        run
    }

    /// A workflow in the hands of a new worker.
    pub async fn held(&mut self) -> (String, v1::PollActivityResponse) {
        let id = self.begin().await;
        let worker = self.worker().await;
        let run = self.poll(&worker).await;
        assert_eq!(run.run_id, id, "another run was in the way");
        (worker, run)
    }

    pub async fn get(&mut self, run: &str) -> v1::WorkflowRun {
        self.client.get_workflow_run(v1::GetWorkflowRunRequest { run_id: run.into() }).await.unwrap().into_inner()
    }

    pub async fn state(&mut self, run: &str) -> v1::RunState {
        self.get(run).await.state()
    }

    pub async fn signal(&mut self, run: &str, name: &str, payload: &str) -> u64 {
        let request = v1::SignalWorkflowRunRequest {
            run_id: run.into(),
            name: name.into(),
            payload: payload.to_owned().into(),
            idempotency_key: None,
        };
        self.client.signal_workflow_run(request).await.unwrap().into_inner().number
    }

    pub async fn complete_step(&mut self, run: &v1::PollActivityResponse, position: u32, name: &str, output: &str) {
        self.client.complete_step(step(run, position, name, output)).await.unwrap();
    }

    pub async fn complete(&mut self, run: &v1::PollActivityResponse, output: &str) {
        self.client.complete_workflow(completion(run, output)).await.unwrap();
    }

    /// Opens a stream, with the answer to its hello read.
    pub async fn work(&mut self, hello: v1::Hello) -> (Stream, v1::RegisterWorkerResponse) {
        Stream::open(&mut self.client, hello).await
    }
}

/// A worker's stream.
pub struct Stream {
    sender: Option<mpsc::Sender<v1::WorkRequest>>,
    answers: Streaming<v1::WorkResponse>,
    ready: VecDeque<v1::WorkResponse>,
    number: u64,
}

impl Stream {
    pub async fn open(client: &mut Workflows, hello: v1::Hello) -> (Stream, v1::RegisterWorkerResponse) {
        let mut stream = Stream::connect(client, v1::WorkRequest { hello: Some(hello), ..Default::default() }).await;
        let registered = stream.until(|answer| answer.registered.take()).await;
        (stream, registered)
    }

    /// Sends this first.
    pub async fn connect(client: &mut Workflows, first: v1::WorkRequest) -> Stream {
        let (sender, receiver) = mpsc::channel(100);
        sender.send(first).await.unwrap();
        let requests = futures_util::stream::unfold(receiver, |mut receiver| async {
            receiver.recv().await.map(|request| (request, receiver))
        });
        let answers = client.work(requests).await.unwrap().into_inner();
        Stream { sender: Some(sender), answers, ready: VecDeque::new(), number: 0 }
    }

    pub async fn send(&mut self, request: v1::WorkRequest) {
        self.sender.as_ref().unwrap().send(request).await.unwrap();
    }

    pub async fn grant(&mut self, slots: u32) {
        self.send(v1::WorkRequest { slots, ..Default::default() }).await;
    }

    /// Sends reports in one message, and returns the number of the first.
    pub async fn report(&mut self, reports: Vec<v1::report::What>) -> u64 {
        let first = self.number + 1;
        let reports = reports.into_iter().map(|what| {
            self.number += 1;
            v1::Report { number: self.number, what: Some(what) }
        });
        let request = v1::WorkRequest { reports: reports.collect(), ..Default::default() };
        self.send(request).await;
        first
    }

    /// Nothing more will be sent.
    pub fn half_close(&mut self) {
        self.sender = None;
    }

    /// The next message; how the stream ended when there is none.
    pub async fn next(&mut self) -> Result<v1::WorkResponse, Option<Status>> {
        if let Some(ready) = self.ready.pop_front() {
            return Ok(ready);
        }
        match tokio::time::timeout(PATIENCE, self.answers.next()).await.expect("nothing came") {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(status)) => Err(Some(status)),
            None => Err(None),
        }
    }

    /// Reads on until this finds something, and keeps the rest for later.
    pub async fn until<T>(&mut self, mut find: impl FnMut(&mut v1::WorkResponse) -> Option<T>) -> T {
        for answer in &mut self.ready {
            if let Some(found) = find(answer) {
                return found;
            }
        }
        loop {
            let mut answer = match tokio::time::timeout(PATIENCE, self.answers.next()).await.expect("nothing came") {
                Some(answer) => answer.unwrap(),
                None => panic!("the stream has ended"),
            };
            let found = find(&mut answer);
            self.ready.push_back(answer);
            if let Some(found) = found {
                return found;
            }
        }
    }

    /// Waits for a run.
    pub async fn run(&mut self) -> v1::PollActivityResponse {
        self.until(|answer| (!answer.runs.is_empty()).then(|| answer.runs.remove(0))).await
    }

    /// Waits for this many runs.
    pub async fn runs(&mut self, count: usize) -> Vec<v1::PollActivityResponse> {
        let mut runs = Vec::new();
        while runs.len() < count {
            runs.push(self.run().await);
        }
        runs
    }

    /// Waits for the answer to a report.
    pub async fn answer(&mut self, number: u64) -> v1::report_answer::What {
        let mine = |answer: &v1::ReportAnswer| answer.number == number;
        self.until(|message| {
            let index = message.answers.iter().position(mine)?;
            message.answers.remove(index).what
        })
        .await
    }

    /// Waits for the answer to a heartbeat, or for news.
    pub async fn heartbeat(&mut self) -> v1::WorkerHeartbeatResponse {
        self.until(|answer| answer.heartbeat.take()).await
    }

    /// Waits for messages.
    pub async fn messages(&mut self) -> v1::RunMessages {
        self.until(|answer| (!answer.messages.is_empty()).then(|| answer.messages.remove(0))).await
    }
}

/// Code and reason of a refused call.
pub fn refusal<T: Debug>(result: Result<T, Status>) -> (Code, String) {
    let status = result.expect_err("it was not refused");
    let details = status.get_error_details();
    let reason = details.error_info().map(|info| info.reason.clone()).unwrap_or_default();
    assert!(!status.message().is_empty());
    (status.code(), reason)
}

/// The field that a call was refused for.
pub fn field<T: Debug>(result: Result<T, Status>) -> String {
    let status = result.expect_err("it was not refused");
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let details = status.get_error_details();
    details.bad_request().unwrap_or_else(|| panic!("no field in {status:?}")).field_violations[0].field.clone()
}

// ---- shapes

pub fn order() -> v1::StartWorkflowRequest {
    v1::StartWorkflowRequest {
        task_queue: "orders".into(),
        workflow_type: "order".into(),
        input: r#"{"id":7}"#.into(),
        ..Default::default()
    }
}

pub fn worker() -> v1::RegisterWorkerRequest {
    v1::RegisterWorkerRequest {
        task_queue: "orders".into(),
        workflow_types: vec!["order".into(), "child".into()],
        version: "1.2.3".into(),
        max_concurrent: 10,
        name: "a worker".into(),
        ..Default::default()
    }
}

pub fn hello() -> v1::Hello {
    v1::Hello { register: Some(worker()), ..Default::default() }
}

pub fn poll(worker: &str, wait: Duration) -> v1::PollActivityRequest {
    v1::PollActivityRequest {
        worker_id: worker.into(),
        task_queue: "orders".into(),
        supported_workflow_types: vec!["order".into(), "child".into()],
        wait: Some(wait.try_into().unwrap()),
        ..Default::default()
    }
}

pub fn step(run: &v1::PollActivityResponse, position: u32, name: &str, output: &str) -> v1::CompleteStepRequest {
    v1::CompleteStepRequest {
        run_id: run.run_id.clone(),
        lease: run.lease.clone(),
        position,
        name: name.into(),
        output: output.to_owned().into(),
        ..Default::default()
    }
}

pub fn failed_step(run: &v1::PollActivityResponse, position: u32, attempt: u32) -> v1::FailStepRequest {
    v1::FailStepRequest {
        run_id: run.run_id.clone(),
        lease: run.lease.clone(),
        position,
        name: "charge".into(),
        error: "declined".into(),
        code: "card".into(),
        retry: Some(v1::RetryPolicy {
            max_attempts: 2,
            first_interval: Some(prost_types::Duration { seconds: 3, nanos: 0 }),
            jitter: Some(0.0),
            ..Default::default()
        }),
        attempt,
        ..Default::default()
    }
}

pub fn completion(run: &v1::PollActivityResponse, output: &str) -> v1::CompleteWorkflowRequest {
    v1::CompleteWorkflowRequest {
        run_id: run.run_id.clone(),
        lease: run.lease.clone(),
        output: output.to_owned().into(),
    }
}

pub fn suspension(run: &v1::PollActivityResponse, seen: u64) -> v1::SuspendRequest {
    v1::SuspendRequest {
        run_id: run.run_id.clone(),
        lease: run.lease.clone(),
        seen,
        awaits_messages: true,
        ..Default::default()
    }
}

pub fn sleep(run: &v1::PollActivityResponse, position: u32, duration: Duration) -> v1::SuspendRequest {
    let duration = Some(duration.try_into().unwrap());
    let sleeps = vec![v1::Sleep { position, name: "pause".into(), duration, until: None }];
    v1::SuspendRequest { sleeps, awaits_messages: false, ..suspension(run, 0) }
}
