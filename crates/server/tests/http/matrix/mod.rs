//! Every operation of the document against every kind of credential.
//!
//! `table.rs` says what opens an operation; one without a row fails here. `roles.rs` says who asks,
//! `world.rs` has the fixtures, and `call.rs` makes the requests.

mod call;
mod roles;
mod table;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use baton::proto::API_KEY_HEADER;
use serde_json::Value;

use self::call::without_names;
use self::roles::{Role, security};
use self::table::{Opens, ROWS, Row, WITHOUT_SUCCESS};
use self::world::{TEAM, World};
use crate::harness::{Answer, On, on_both};
use crate::reference::requirements;

on_both!(every_operation_is_open_to_those_it_is_for_and_to_nobody_else, lists_of_a_foreign_namespace_are_refused);

/// Method, path and security of every operation of the document.
fn operations() -> BTreeMap<(String, String), Value> {
    let document = serde_json::to_value(baton_server::http::openapi()).unwrap();
    let mut all = BTreeMap::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            all.insert((method.to_uppercase(), path.clone()), operation.clone());
        }
    }
    all
}

#[test]
fn every_operation_has_a_row() {
    let declared: BTreeSet<_> = ROWS.iter().map(|row| (row.method.to_owned(), row.path.to_owned())).collect();
    assert_eq!(declared.len(), ROWS.len(), "an operation has two rows in tests/http/matrix/table.rs");
    let there: BTreeSet<_> = operations().into_keys().collect();
    let missing: Vec<_> = there.difference(&declared).collect();
    assert!(missing.is_empty(), "say in tests/http/matrix/table.rs what opens these operations: {missing:?}");
    let gone: Vec<_> = declared.difference(&there).collect();
    assert!(gone.is_empty(), "tests/http/matrix/table.rs has rows of operations that are not there: {gone:?}");
}

#[test]
fn the_document_says_what_opens_an_operation() {
    let operations = operations();
    for row in ROWS {
        let Some(operation) = operations.get(&(row.method.to_owned(), row.path.to_owned())) else { continue };
        let opens = Value::Array(requirements(operation));
        let opens = if opens == Value::Array(Vec::new()) { Value::Null } else { opens };
        assert_eq!(opens, security(row.opens), "{} {}", row.method, row.path);
        let answers = |status: &str| operation["responses"].get(status).is_some();
        let is_closed = !matches!(row.opens, Opens::Anybody | Opens::Password);
        assert!(!is_closed || answers("401") && answers("403"), "{} {} can be refused", row.method, row.path);
    }
}

async fn every_operation_is_open_to_those_it_is_for_and_to_nobody_else(on: On) {
    let mut world = World::start(on).await;
    // So that a sign of life would be seen.
    world.rig.server.clock.advance(1_000);
    let (before, files) = (world.snapshot().await, world.rig.server.stored_files());
    let mut wrong = Vec::new();
    for (row, role) in pairs().filter(|(row, role)| !(role.may(row.opens) || row.own && role.is_foreign())) {
        wrong.extend(world.is_refused(row, role).await.err());
    }
    wrong.extend(changes(&before, &world.snapshot().await));
    assert_eq!(world.rig.server.stored_files(), files, "a refused call left a file");
    for (row, role) in pairs().filter(|(row, role)| row.own && role.is_foreign() && !role.may(row.opens)) {
        wrong.extend(world.stays_at_home(row, role).await.err());
    }
    wrong.extend(changes(&before, &world.snapshot().await));
    let mut succeeded = BTreeSet::new();
    for (row, role) in pairs().filter(|(row, role)| role.may(row.opens)) {
        if let Some(part) = row.renews() {
            world.renew(part, role).await;
        }
        let answer = world.ask(row, role).await;
        if matches!(answer.status, 401 | 403 | 500..) {
            wrong.push(told(row, role, "it may", &answer));
        }
        let instead = WITHOUT_SUCCESS.iter().find(|(method, path, _)| (*method, *path) == (row.method, row.path));
        if instead.map_or(answer.status < 300, |(_, _, status)| *status == answer.status) {
            succeeded.insert((row.method, row.path));
        }
    }
    let never: Vec<_> = ROWS.iter().filter(|row| !succeeded.contains(&(row.method, row.path))).collect();
    assert!(wrong.is_empty(), "{} wrong answers:\n{}", wrong.len(), wrong.join("\n"));
    assert!(never.is_empty(), "no role got an answer, so the requests are wrong: {never:#?}");
}

/// Whoever asks for less than everything they may see, asks for what they may see.
async fn lists_of_a_foreign_namespace_are_refused(on: On) {
    let world = World::start(on).await;
    let mut asked = 0;
    for ((method, path), operation) in operations() {
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        if method != "GET" || path.contains('{') || !parameters.iter().any(|one| one["name"] == "namespace") {
            continue;
        }
        asked += 1;
        // A stream ends only when it is told to.
        let wait = if path == "/api/v1/events" { "&wait_ms=1" } else { "" };
        let of = async |namespace: &str, role| {
            let request = world.rig.server.request("GET", &format!("{path}?namespace={namespace}{wait}"));
            world.rig.server.send(request.header(API_KEY_HEADER, world.key(role)), "").await
        };
        for namespace in ["default", "made-up"] {
            assert_eq!(of(namespace, Role::Foreign).await.refusal(), "403 forbidden", "{path} of {namespace}");
        }
        assert_eq!(of(TEAM, Role::Foreign).await.status, 200, "{path}");
        assert_eq!(of("default", Role::Read).await.status, 200, "{path}");
    }
    assert_eq!(
        asked, 10,
        "runs, workers, queues, schedules, pools, bulk operations, events, statistics, webhooks and attention"
    );
}

fn pairs() -> impl Iterator<Item = (&'static Row, Role)> {
    ROWS.iter().flat_map(|row| {
        let roles = Role::ALL.into_iter().filter(|role| !role.is_pointless_for(row));
        roles.map(move |role| (row, role))
    })
}

fn told(row: &Row, role: Role, expected: &str, answer: &Answer) -> String {
    let said = String::from_utf8_lossy(&answer.body);
    format!("{role:?}: {} {}: {expected}, and got {} {said}", row.method, row.path, answer.status)
}

fn changes(before: &BTreeMap<String, Value>, after: &BTreeMap<String, Value>) -> Vec<String> {
    let changed = before.iter().filter(|(path, value)| after[*path] != **value);
    changed.map(|(path, value)| format!("a refused call changed {path}: {value}\n  to {}", after[path])).collect()
}

impl World {
    /// Asks as somebody who may not. What others own is answered as what does not exist, to the
    /// letter.
    async fn is_refused(&self, row: &Row, role: Role) -> Result<(), String> {
        let answer = self.ask(row, role).await;
        if (role.is_foreign() || row.opens == Opens::Owner) && row.names_something() {
            let nothing = self.ask_about_nothing(row, role).await;
            if without_names(&answer, &self.ours) != without_names(&nothing, &self.ours) {
                let unlike = String::from_utf8_lossy(&nothing.body);
                let expected = format!("what does not exist is answered {} {unlike}", nothing.status);
                return Err(told(row, role, &expected, &answer));
            }
        }
        let needs_more_than_a_key = matches!(row.opens, Opens::Holder | Opens::HolderOrWorker);
        let is_refused = match role {
            Role::Nobody if row.opens == Opens::Password => answer.status == 403,
            Role::Nobody => answer.status == 401,
            Role::Stranger => answer.status == 403,
            _ if row.opens == Opens::Owner && self.has_key(role) => answer.status == 404,
            Role::Read | Role::Submit | Role::Worker | Role::NamespaceAdmin | Role::Admin => {
                answer.status == 403 || needs_more_than_a_key && answer.status == 401
            }
            _ if role.is_foreign() && row.names_something() => {
                matches!(answer.status, 401 | 403 | 404) || is_refused_one_by_one(&answer)
            }
            _ => matches!(answer.status, 401 | 403),
        };
        // Answers to HEAD have no body.
        let has_words = row.method == "HEAD" || answer.status == 200 || is_problem(&answer);
        if is_refused && has_words { Ok(()) } else { Err(told(row, role, "it may not", &answer)) }
    }

    /// Asks as a foreign tenant what anybody may ask about their own namespace: nothing of ours is in
    /// the answer.
    async fn stays_at_home(&self, row: &Row, role: Role) -> Result<(), String> {
        let answer = self.ask(row, role).await;
        let said = String::from_utf8_lossy(&answer.body).into_owned();
        // A refusal repeats what was asked for, and a report what was reported.
        let repeats = answer.status >= 400 || row.path.contains("/diagnostics/") || row.path.contains("/cache/");
        let ours = self.ours.iter().filter(|(name, value)| !["queue"].contains(name) && said.contains(value.as_str()));
        let ours: Vec<_> = ours.filter(|_| !repeats).collect();
        match answer.status < 500 && ours.is_empty() {
            true => Ok(()),
            false => Err(told(row, role, &format!("it is of {TEAM}, and not to know of {ours:?}"), &answer)),
        }
    }

    /// True for a role that shows a good key.
    fn has_key(&self, role: Role) -> bool {
        matches!(
            role,
            Role::Read
                | Role::Submit
                | Role::Worker
                | Role::NamespaceAdmin
                | Role::Admin
                | Role::Foreign
                | Role::ForeignLease
        )
    }
}

/// A batch has an answer for each of its runs.
fn is_refused_one_by_one(answer: &Answer) -> bool {
    let runs = (answer.status == 200).then(|| answer.json()["runs"].as_array().cloned()).flatten();
    runs.is_some_and(|runs| !runs.is_empty() && runs.iter().all(|run| run["code"] == "forbidden"))
}

/// A refusal has words for people and for programs. The protocol of uploads has its own.
fn is_problem(answer: &Answer) -> bool {
    let problem: Option<baton::proto::Problem> = serde_json::from_slice(&answer.body).ok();
    problem.is_some_and(|problem| !problem.error.is_empty() && !problem.code.is_empty())
}
