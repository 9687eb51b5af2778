//! /openapi.json and docs/api.md, which is written from it: both show every route there is, and no other. After a change of routes:
//! `UPDATE_DOCS=1 cargo test -p baton-server --test http reference::`, then read the difference.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::breaking::{breaks, is_announced};
use crate::harness::{On, Server, on_both};

const HOW_TO_UPDATE: &str =
    "If the routes are right, run: UPDATE_DOCS=1 cargo test -p baton-server --test http reference::";
const METHODS: [&str; 7] = ["get", "head", "delete", "options", "patch", "post", "put"];

/// What the document says of refusals that all operations of a kind have.
const GENERAL: [&str; 11] = [
    "It cannot be read",
    "No credential was shown",
    "The credential is not good, or not for this",
    "There is no such thing, or none the caller may see",
    "The body did not arrive in time",
    "The body is too large",
    "It can be read, but makes no sense",
    "Too many requests; Retry-After says when to come back",
    "A bug; the server's log says what",
    "The store cannot be reached, or the server is busy or stopping; Retry-After says when to come back",
    "The disk is full",
];

/// What it says of successes.
const USUAL: [&str; 3] = ["Done", "It was made", "Done; there is nothing to answer"];

const HEAD: &str = "\
# The HTTP API

Every route that a server has. This page is written by a test, crates/server/tests/http/reference.rs, from the document behind
`/openapi.json`, which also has the shapes of all bodies. Do not edit it: change the routes, run
`UPDATE_DOCS=1 cargo test -p baton-server --test http reference::`, and read the difference.

*Who may call* names what has to be shown. *key (submit)* is an API key with that scope, in `X-API-Key` or as `Authorization: Bearer`; a key with the
scope *admin* may call everything that takes a key, and one with *submit* may also *read*. *The holder* is whoever builds the build: it shows
`X-Worker-Token`, or a key (worker) and `X-Worker-Id` (a builder), or `X-VM-Token` (a machine), or a key (worker) and `X-Lease` (a worker of the native API). Any call can be refused with 401 (nothing shown), 403 (not
good for this), 429 (too many), or 503 (the store cannot be reached); one with a body also with 400, 408, 413, 422 or 507, and one that names something with 404. Refusals are `{\"error\": ..., \"code\": ...}`: docs/errors.md lists the codes.
";

fn document() -> Value {
    serde_json::to_value(baton_server::http::openapi()).unwrap()
}

/// Method, path and description of every operation.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in METHODS.iter().filter(|method| item.get(**method).is_some()) {
            all.push((method.to_uppercase(), path.clone(), item[*method].clone()));
        }
    }
    all
}

/// Method and path of every route, as the router itself tells them to people who debug it: there is no other way to ask it.
fn served(router: &axum::Router) -> BTreeSet<String> {
    let text = format!("{router:?}");
    let text = text.split("fallback_router").next().unwrap();
    let (routes, paths) = text.split_once("node: Node").unwrap();
    let entries = |text: &str| -> BTreeMap<String, String> {
        let entry = |entry: &str| entry.split_once("): ").map(|(id, rest)| (id.to_owned(), rest.to_owned()));
        text.split("RouteId(").filter_map(entry).collect()
    };
    let (routes, paths) = (entries(routes), entries(paths));
    let mut served = BTreeSet::new();
    for (id, path) in paths {
        let path = path.split('"').nth(1).unwrap();
        let route = &routes[&id];
        let takes =
            |method: &&&str| route.contains(&format!("{method}: ")) && !route.contains(&format!("{method}: None"));
        served.extend(METHODS.iter().filter(takes).map(|method| format!("{} {path}", method.to_uppercase())));
    }
    served
}

async fn the_document_lists_every_route_and_no_other(on: On) {
    let server = Server::start(on).await;
    let document: Value = serde_json::from_str(&server.client.openapi().await.unwrap()).unwrap();
    assert_eq!(document, self::document());
    let mut listed: BTreeSet<String> =
        operations(&document).iter().map(|(method, path, _)| format!("{method} {path}")).collect();
    listed.insert("GET /openapi.json".into());
    assert_eq!(listed, served(&baton_server::http::router(server.app.clone())));
    for known in ["POST /api/v1/runs", "GET /api/workers/poll", "PATCH /api/v1/uploads/{id}", "GET /public/stats"] {
        assert!(listed.contains(known), "{known}");
    }
}

async fn who_shows_nothing_gets_what_is_for_anybody_and_nothing_else(on: On) {
    let server = Server::start(on).await;
    for (method, path, operation) in operations(&document()) {
        let asked = path.replace("{which}", "result").replace(['{', '}'], "");
        let answer =
            server.send(server.request(&method, &asked).header("content-type", "application/json"), "{}").await;
        match operation.get("security") {
            Some(_) => assert_eq!(answer.status, 401, "{method} {path} asks for something first"),
            None if path.ends_with("/authenticate") => assert_eq!(answer.status, 422, "{method} {path}: {answer:?}"),
            None => assert!(matches!(answer.status, 200 | 204), "{method} {path}: {answer:?}"),
        }
    }
}

/// Of routes that take nothing but an API key, and read.
async fn a_key_of_another_scope_is_refused_as_documented(on: On) {
    let server = Server::start(on).await;
    let mut keys = BTreeMap::new();
    for scope in ["submit", "worker", "read"] {
        let wanted = json!({"name": "x", "scopes": [scope]}).to_string();
        let made = server.call("POST", "/api/v1/keys", wanted).await.json();
        keys.insert(scope, made["key"].as_str().unwrap().to_owned());
    }
    let mut seen = 0;
    for (method, path, operation) in operations(&document()).into_iter().filter(|(method, ..)| method == "GET") {
        // They look for their run or worker first; `scopes` has them.
        if path.starts_with("/api/v1/runs/") || path.starts_with("/api/v1/workers/") {
            continue;
        }
        let [one] = &requirements(&operation)[..] else { continue };
        let (1, Some(scope)) = (one.as_object().unwrap().len(), one["api_key"][0].as_str()) else { continue };
        let weak = if scope == "worker" { "submit" } else { "worker" };
        let asked = path.replace(['{', '}'], "");
        let answer = server.send(server.request(&method, &asked).header("x-api-key", &keys[weak]), "").await;
        assert_eq!(answer.refusal(), "403 forbidden", "{weak}: {method} {path}");
        seen += 1;
    }
    assert!(seen >= 14, "only {seen} routes were looked at");
}

on_both!(
    the_document_lists_every_route_and_no_other,
    who_shows_nothing_gets_what_is_for_anybody_and_nothing_else,
    a_key_of_another_scope_is_refused_as_documented,
);

#[test]
fn the_document_is_complete() {
    let document = document();
    let tags: BTreeSet<_> =
        document["tags"].as_array().unwrap().iter().map(|tag| tag["name"].clone().to_string()).collect();
    let schemes = document["components"]["securitySchemes"].as_object().unwrap();
    assert_eq!((&schemes["api_key"]["in"], &schemes["api_key"]["name"]), (&json!("header"), &json!("X-API-Key")));
    let mut ids = BTreeSet::new();
    for (method, path, operation) in operations(&document) {
        let route = format!("{method} {path}");
        assert!(ids.insert(operation["operationId"].to_string()), "{route}: another one has the same id");
        assert!(
            operation["summary"].as_str().is_some_and(|text| text.ends_with('.')),
            "{route} says nothing of itself"
        );
        assert!(
            operation["tags"].as_array().is_some_and(|own| own.len() == 1 && tags.contains(&own[0].to_string())),
            "{route}"
        );
        for requirement in operation["security"].as_array().into_iter().flatten() {
            assert!(requirement.as_object().unwrap().keys().all(|name| schemes.contains_key(name)), "{route}");
        }
        let named: BTreeSet<&str> = path.split('{').skip(1).filter_map(|rest| rest.split('}').next()).collect();
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let described: BTreeSet<&str> =
            parameters.filter(|one| one["in"] == "path").filter_map(|one| one["name"].as_str()).collect();
        assert_eq!(named, described, "{route}");
        assert!(operation["responses"].as_object().is_some_and(|answers| !answers.is_empty()), "{route}");
        let has_words = |part: &Value| part["description"].as_str().is_some_and(|words| !words.is_empty());
        assert!(has_words(&operation), "{route} is not described");
        for (status, answer) in operation["responses"].as_object().unwrap() {
            assert!(has_words(answer), "{route}: what does {status} mean?");
        }
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            assert!(has_words(parameter), "{route}: what is {}?", parameter["name"]);
        }
    }
    assert!(
        document["components"]["schemas"]["Heartbeat"]["properties"].get("leases").is_some(),
        "a name for two shapes"
    );
    let text = document.to_string();
    for reference in text.split("\"#/components/schemas/").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(document["components"]["schemas"].get(reference).is_some(), "{reference} is not described");
    }
}

/// What has to be shown. An API key may come as `Authorization: Bearer` everywhere, so that is left out.
pub(crate) fn requirements(operation: &Value) -> Vec<Value> {
    let all = operation["security"].as_array().into_iter().flatten();
    all.filter(|requirement| requirement.get("bearer").is_none()).cloned().collect()
}

/// What has to be shown, in words.
fn who(operation: &Value, document: &Value) -> String {
    let requirements = requirements(operation);
    if requirements.is_empty() {
        return "anybody".into();
    }
    let one = |(name, scopes): (&String, &Value)| match (name.as_str(), scopes[0].as_str()) {
        ("api_key", Some(scope)) => format!("key ({scope})"),
        ("api_key", None) => "key".into(),
        _ => {
            let header = &document["components"]["securitySchemes"][name]["name"];
            format!("`{}`", header.as_str().unwrap_or("Authorization"))
        }
    };
    if requirements.iter().any(|requirement| requirement.get("lease").is_some()) {
        return "the holder".into();
    }
    let all = |requirement: &Value| requirement.as_object().unwrap().iter().map(one).collect::<Vec<_>>().join(" and ");
    requirements.iter().map(all).collect::<Vec<_>>().join("; or ")
}

/// The answers, in words: a refusal's body is always the same.
fn answers(operation: &Value, document: &Value) -> String {
    let answer = |(status, answer): (&String, &Value)| {
        let content = answer["content"].as_object().and_then(|content| content.values().next());
        let shape = content.and_then(|content| content["schema"]["$ref"].as_str()?.rsplit('/').next());
        let schema = shape.map(|shape| &document["components"]["schemas"][shape]["description"]);
        let by_shape = schema.and_then(Value::as_str).map(|text| text.trim_end_matches('.'));
        // What only says what its shape or its status says goes without saying.
        let said = answer["description"].as_str().filter(|text| Some(*text) != by_shape && !USUAL.contains(text));
        let said = said.map(str::to_lowercase);
        match (shape, said) {
            (None, None) | (Some("Problem"), _) => status.clone(),
            (Some(shape), None) => format!("{status} `{shape}`"),
            (None, Some(said)) => format!("{status} ({said})"),
            (Some(shape), Some(said)) => format!("{status} `{shape}` ({said})"),
        }
    };
    // What any call of its kind may be refused with is said at the top of the page.
    let own =
        |(_, response): &(&String, &Value)| !GENERAL.contains(&response["description"].as_str().unwrap_or_default());
    operation["responses"].as_object().unwrap().iter().filter(own).map(answer).collect::<Vec<_>>().join(", ")
}

fn page() -> String {
    let document = document();
    let operations = operations(&document);
    let mut page = HEAD.to_owned();
    for tag in document["tags"].as_array().unwrap() {
        let (name, about) = (tag["name"].as_str().unwrap(), tag["description"].as_str().unwrap());
        let title = name[..1].to_uppercase() + &name[1..];
        write!(page, "\n## {title}\n\n{about}.\n\n").unwrap();
        page.push_str("| method | path | who may call | what it does | answers |\n| --- | --- | --- | --- | --- |\n");
        for (method, path, operation) in operations.iter().filter(|(.., operation)| operation["tags"][0] == *name) {
            let (who, answers) = (who(operation, &document), answers(operation, &document));
            let does = operation["description"].as_str().unwrap().split("\n\n").next().unwrap();
            writeln!(page, "| {method} | `{path}` | {who} | {does} | {answers} |").unwrap();
        }
    }
    page
}

#[test]
fn the_reference_shows_what_the_document_says() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/api.md");
    let found = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &found).expect("docs/api.md can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    if let Some((line, (is, was))) = found.lines().zip(written.lines()).enumerate().find(|(_, (is, was))| is != was) {
        panic!("docs/api.md is out of date, line {}:\n  routes: {is}\n  page:   {was}\n{HOW_TO_UPDATE}", line + 1);
    }
    assert!(found == written, "docs/api.md has another length than the routes give it. {HOW_TO_UPDATE}");
}

/// The document as a file: for those who read, and to see what a change breaks. What was never released may be changed after
/// all: delete the file, and write it again.
#[test]
fn the_document_is_a_file_and_breaks_nobody_unannounced() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let document = document();
    let found = serde_json::to_string_pretty(&document).unwrap() + "\n";
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    if let Ok(old) = serde_json::from_str::<Value>(&written)
        && !is_announced(&old, &document)
    {
        let broken = breaks(&old, &document);
        assert!(broken.is_empty(), "this breaks callers, and the version does not say so: {broken:#?}");
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &found).expect("docs/openapi.json can be written");
    } else {
        assert!(found == written, "docs/openapi.json is out of date. {HOW_TO_UPDATE}");
    }
}
