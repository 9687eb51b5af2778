//! An answer: the request that it is for, whose it is, and the room that it has.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use axum::extract::MatchedPath;
use baton_core::trace::TraceContext;
use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;

use super::{Connection, Owner, Room, kept};
use crate::Caller;
use crate::addresses::network;

tokio::task_local! {
    /// The answer that this task makes.
    static ANSWER: Answer;
}

/// The request that an answer is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// Where it comes from: the other end of the connection, or what a trusted proxy says.
    pub address: Option<IpAddr>,
    /// What it is called in the audit log and in the answer's `x-request-id`.
    pub request_id: Arc<str>,
    /// The trace that it says it is part of.
    pub trace: Option<Arc<TraceContext>>,
}

/// What a request is for: never its path, which may hold anything.
#[derive(Clone, Debug)]
pub(crate) enum Route {
    /// A route of HTTP.
    Path(MatchedPath),
    /// A method of gRPC.
    Method(Arc<str>),
}

impl Route {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Route::Path(path) => path.as_str(),
            Route::Method(method) => method,
        }
    }
}

/// What is known of a request when it has been answered.
pub(crate) struct About<'a> {
    pub(crate) route: Option<&'a Route>,
    pub(crate) key_id: Option<&'a str>,
    pub(crate) request_id: Option<&'a str>,
    pub(crate) trace: Option<&'a TraceContext>,
}

/// An answer: whose it is, and the room that it has.
#[derive(Clone, Debug)]
pub struct Answer(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Apart from the rest: lines of the log name it, whatever is locked.
    origin: Option<Origin>,
    state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) connection: Option<Connection>,
    route: Option<Route>,
    /// What its caller's key lacks.
    refusal: Option<String>,
    pub(super) caller: Option<Arc<Caller>>,
    pub(super) rooms: Vec<Arc<Room>>,
    /// What it holds while it is made: turns of its connection and of its key.
    pub(super) making: [Option<OwnedSemaphorePermit>; 2],
}

impl State {
    fn owner(&self, origin: Option<&Origin>) -> Option<Owner> {
        let key = self.caller.as_ref().map(|caller| Owner::Key(caller.key_id.clone()));
        let address = || origin?.address.map(network).map(Owner::Address);
        key.or_else(address)
    }
}

impl Answer {
    /// One that has no room yet.
    pub fn new(connection: Option<Connection>, origin: Option<Origin>) -> Answer {
        let (route, refusal, caller, rooms, making) = (None, None, None, Vec::new(), [None, None]);
        let state = Mutex::new(State { connection, route, refusal, caller, rooms, making });
        Answer(Arc::new(Shared { origin, state }))
    }

    pub(super) fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.state.lock().expect("nobody panics while holding it"))
    }

    /// Makes an answer, for which room is noted here.
    pub fn made_by<F: Future>(&self, making: F) -> impl Future<Output = F::Output> + use<F> {
        ANSWER.scope(self.clone(), making)
    }

    /// Makes an answer at once, which names the request.
    pub(crate) fn named<T>(&self, making: impl FnOnce() -> T) -> T {
        ANSWER.sync_scope(self.clone(), making)
    }

    /// Notes that the answer which is being made is for this caller, whose key is good.
    pub fn is_for(caller: &Arc<Caller>) {
        let _ = ANSWER.try_with(|answer| answer.belongs_to(caller));
    }

    pub(super) fn owner(&self) -> Option<Owner> {
        self.with(|state| state.owner(self.0.origin.as_ref()))
    }

    /// The answer that is being made.
    pub(super) fn current() -> Option<Answer> {
        ANSWER.try_with(Answer::clone).ok()
    }

    /// Whose answer is being made.
    pub(crate) fn current_owner() -> Option<Owner> {
        ANSWER.try_with(Answer::owner).ok().flatten()
    }

    /// The request whose answer is being made.
    pub(crate) fn current_origin() -> Option<Origin> {
        ANSWER.try_with(|answer| answer.0.origin.clone()).ok().flatten()
    }

    /// What the request is called whose answer is being made.
    pub(crate) fn current_request_id() -> Option<Arc<str>> {
        let id = |answer: &Answer| answer.0.origin.as_ref().map(|origin| origin.request_id.clone());
        ANSWER.try_with(id).ok().flatten()
    }

    /// The trace that the request says it is part of whose answer is being made.
    pub(crate) fn current_trace() -> Option<Arc<TraceContext>> {
        ANSWER.try_with(|answer| answer.0.origin.as_ref()?.trace.clone()).ok().flatten()
    }

    /// Its identifier.
    pub(crate) fn current_trace_id() -> Option<String> {
        Answer::current_trace().map(|trace| trace.trace_id.to_string())
    }

    /// Notes what the request is for.
    pub(crate) fn is_about(&self, route: Route) {
        self.with(|state| state.route = Some(route));
    }

    /// Calls `look` with what is known of the request.
    pub(crate) fn with_about<T>(&self, look: impl FnOnce(About<'_>) -> T) -> T {
        self.with(|state| {
            look(About {
                route: state.route.as_ref(),
                key_id: state.caller.as_ref().map(|caller| caller.key_id.as_str()),
                request_id: self.0.origin.as_ref().map(|origin| &*origin.request_id),
                trace: self.0.origin.as_ref().and_then(|origin| origin.trace.as_deref()),
            })
        })
    }

    /// Notes that the caller's key is not enough for what it asks.
    pub(crate) fn is_refused(why: &str) {
        let _ = ANSWER.try_with(|answer| answer.with(|state| state.refusal = Some(why.to_owned())));
    }

    /// Whose key is not enough for what it asks, and why, if so.
    pub(crate) fn refusal(&self) -> Option<(Arc<Caller>, String)> {
        self.with(|state| state.caller.clone().zip(state.refusal.take()))
    }

    /// Notes whose it is.
    pub fn belongs_to(&self, caller: &Arc<Caller>) {
        self.with(|state| state.caller = Some(caller.clone()));
    }

    /// Lets others read: this one waits for something else, or has been made.
    pub fn pause() {
        let _ = ANSWER.try_with(Answer::made);
    }

    /// Notes that nothing more is read for it.
    pub fn made(&self) {
        self.with(|state| state.making = [None, None]);
    }

    /// Bytes that it has room for.
    pub fn bytes(&self) -> usize {
        self.with(|state| state.rooms.iter().map(|room| room.bytes).sum())
    }

    /// Gives back what it has, because it is thrown away and made again.
    pub(super) fn release(&self) {
        self.with(|state| state.rooms.clear());
    }

    /// These bytes, which keep the answer's room until the last of them is dropped.
    pub fn keep(&self, bytes: Bytes) -> Bytes {
        kept(bytes, self.clone())
    }
}
