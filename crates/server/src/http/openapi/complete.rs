//! Makes the document out of what the handlers say of themselves: names, words where a handler has none, the ways to show an API
//! key, refusals that every operation of its kind knows, files, streams and examples. Pure: a document in, a document out.

use serde_json::{Value, json};

use super::super::etag::has_tags;
use super::examples::EXAMPLES;
use super::ids::operation_id;

const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// Routes that answer with a file.
const FILES: [&str; 5] = [
    "/api/builds/{id}/download",
    "/api/builds/{id}/download/{which}",
    "/api/builds/{id}/source",
    "/api/builds/{id}/certs",
    "/api/v1/cache/{sha256}",
];

/// Operations that take a file as their body, and how they call it.
const BODIES: [(&str, &str, &str); 3] = [
    ("put", "/api/v1/cache/{sha256}", "application/octet-stream"),
    ("patch", "/api/v1/uploads/{id}", "application/offset+octet-stream"),
    ("post", "/api/builds/{id}/artifact", "application/octet-stream"),
];

/// Operations that answer with a stream of events, and what an event is. Clients that were generated
/// know no streams: for them it is text.
const STREAMS: [(&str, &str); 2] = [
    (
        "/api/builds/{id}/logs",
        "Every line as an event, whose id is the line's number and whose data is a BuildLogLine as JSON; then an event `end`",
    ),
    ("/api/v1/events", "Events with a kind, an id to go on after, and an Event as JSON for their data"),
];

/// Method, path and description of every operation.
pub(super) fn operations(document: &mut Value) -> impl Iterator<Item = (&'static str, String, &mut Value)> {
    let paths = document.get_mut("paths").and_then(Value::as_object_mut).into_iter().flatten();
    paths.flat_map(|(path, item)| {
        let operations = item.as_object_mut().into_iter().flatten();
        operations.filter_map(|(key, operation)| {
            let method = METHODS.iter().find(|method| *method == key)?;
            Some((*method, path.clone(), operation))
        })
    })
}

fn answers(operation: &mut Value) -> impl Iterator<Item = (&String, &mut Value)> {
    operation.get_mut("responses").and_then(Value::as_object_mut).into_iter().flatten()
}

/// The whole document.
pub(super) fn complete(mut document: Value) -> Value {
    for (_, name, words) in REFUSALS {
        document["components"]["responses"][name] = refusal(words);
    }
    let schemas = document["components"]["schemas"].clone();
    for (method, path, operation) in operations(&mut document) {
        if let Some(id) = operation_id(method, &path, operation["operationId"].as_str()) {
            operation["operationId"] = id.into();
        }
        describe(operation);
        name_parameters(&path, operation);
        add_bearer(operation);
        add_files(method, &path, operation);
        add_refusals(operation);
        share_refusals(operation);
        if method == "get" && has_tags(&path) {
            operation["responses"]["304"] = json!({"description": "Not changed: If-None-Match names its ETag"});
        }
        describe_answers(operation, &schemas);
        if let Some(id) = operation["operationId"].as_str()
            && let Some((_, example)) = EXAMPLES.iter().find(|(of, _)| *of == id)
        {
            let content = &mut operation["requestBody"]["content"]["application/json"];
            content["example"] = serde_json::from_str(example).unwrap_or_default();
        }
    }
    document
}

/// A summary of one sentence, and a description that says all of it.
fn describe(operation: &mut Value) {
    let words = |text: &Value| text.as_str().map(|text| text.replace('\n', " ")).filter(|text| !text.is_empty());
    let Some(summary) = words(&operation["summary"]) else { return };
    let description = match words(&operation["description"]) {
        Some(more) => format!("{summary}\n\n{more}"),
        None => summary.clone(),
    };
    let first = summary.find(". ").map_or(summary.as_str(), |end| &summary[..=end]);
    operation["summary"] = first.into();
    operation["description"] = description.into();
}

/// Words for the variable parts of a path that have none.
fn name_parameters(path: &str, operation: &mut Value) {
    for parameter in operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten() {
        let has_words = parameter["description"].as_str().is_some_and(|words| !words.is_empty());
        let Some(name) = parameter["name"].as_str().filter(|_| !has_words) else { continue };
        let before = path.split(&format!("/{{{name}}}")).next().unwrap_or_default();
        let kind = before.rsplit('/').next().unwrap_or_default().trim_end_matches('s');
        let words = match name {
            "id" => format!("Identifier of the {kind}"),
            "run_id" => "What the caller calls its run".to_owned(),
            _ => format!("Name of the {kind}"),
        };
        parameter["description"] = words.into();
    }
}

/// Whoever may show an API key in its own header may show it as `Authorization: Bearer` as well.
fn add_bearer(operation: &mut Value) {
    let Some(requirements) = operation.get_mut("security").and_then(Value::as_array_mut) else { return };
    let as_bearer = |requirement: &Value| {
        let mut other = requirement.as_object()?.clone();
        let scopes = other.remove("api_key")?;
        other.insert("bearer".into(), scopes);
        Some(Value::Object(other))
    };
    let others: Vec<Value> = requirements.iter().filter_map(as_bearer).collect();
    requirements.extend(others);
}

/// The files and streams that an operation takes or answers with.
fn add_files(method: &str, path: &str, operation: &mut Value) {
    let file = || json!({"schema": {"type": "string", "format": "binary"}});
    if let Some((.., kind)) = BODIES.iter().find(|(of, at, _)| (*of, *at) == (method, path))
        && operation["requestBody"]["content"][kind].is_null()
    {
        operation["requestBody"]["description"] = "The file, or the piece of it".into();
        operation["requestBody"]["content"][kind] = file();
    }
    if method == "get" && FILES.contains(&path) {
        for (_, answer) in answers(operation).filter(|(status, _)| ["200", "206"].contains(&status.as_str())) {
            answer["content"] = json!({"application/octet-stream": file()});
        }
    }
    if let Some((_, about)) = STREAMS.iter().find(|(at, _)| method == "get" && *at == path) {
        operation["responses"]["200"]["content"]["text/event-stream"] =
            json!({"schema": {"type": "string", "description": about}});
    }
    for (_, answer) in answers(operation) {
        for kind in ["/content/text~1plain", "/content/text~1html"] {
            if let Some(text) = answer.pointer_mut(kind) {
                text["schema"] = json!({"type": "string"});
            }
        }
    }
}

/// Refusals that mean the same everywhere: their status, their name among the components, and words.
const REFUSALS: [(&str, &str, &str); 13] = [
    ("400", "Malformed", "It cannot be read"),
    ("401", "NoCredential", "No credential was shown"),
    ("403", "Forbidden", "The credential is not good, or not for this"),
    ("404", "NotFound", "There is no such thing, or none the caller may see"),
    ("408", "TooSlow", "The body did not arrive in time"),
    ("409", "Conflict", "The state of things does not allow it"),
    ("413", "TooLarge", "The body is too large"),
    ("422", "Invalid", "It can be read, but makes no sense"),
    ("429", "TooManyRequests", "Too many requests; Retry-After says when to come back"),
    ("500", "Internal", "A bug; the server's log says what"),
    ("502", "BadGateway", "Another service did not do what is needed of it"),
    (
        "503",
        "Unavailable",
        "The store cannot be reached, or the server is busy or stopping; Retry-After says when to come back",
    ),
    ("507", "DiskFull", "The disk is full"),
];

/// What a status means where nothing else is said.
fn words_of(status: &str) -> &'static str {
    match status {
        "200" => "Done",
        "201" => "It was made",
        "204" => "Done; there is nothing to answer",
        _ => REFUSALS.iter().find(|(of, ..)| *of == status).map_or("See docs/errors.md", |(.., words)| words),
    }
}

/// Adds the refusals that every operation of its kind knows, where its description does not have them in words of its own.
fn add_refusals(operation: &mut Value) {
    let is_secured = operation["security"].as_array().is_some_and(|security| !security.is_empty());
    let parameters = operation["parameters"].as_array();
    let has = |place: &str| parameters.is_some_and(|all| all.iter().any(|parameter| parameter["in"] == place));
    let (has_path, has_query, has_body) = (has("path"), has("query"), operation.get("requestBody").is_some());
    let kinds = [
        ("400", has_path || has_body),
        ("401", is_secured),
        ("403", is_secured),
        ("404", has_path || has_query),
        ("408", has_body),
        ("413", has_body),
        ("422", has_path || has_query || has_body),
        ("429", true),
        ("500", true),
        ("503", true),
        ("507", has_body),
    ];
    for (status, _) in kinds.into_iter().filter(|(_, applies)| *applies) {
        if operation["responses"].get(status).is_none() {
            operation["responses"][status] = json!({"content": {"application/json": {"schema": {"$ref": PROBLEM}}}});
        }
    }
}

/// The shape of refusals.
const PROBLEM: &str = "#/components/schemas/Problem";

/// A refusal in both shapes: the plain one, and that of RFC 9457 for those who accept it.
fn refusal(words: &str) -> Value {
    json!({"description": words, "content": {
        "application/json": {"schema": {"$ref": PROBLEM}},
        "application/problem+json": {"schema": {"$ref": "#/components/schemas/ProblemDetails"}},
    }})
}

/// Refusals without words of their own stand among the components, once for all; the others get their second shape.
fn share_refusals(operation: &mut Value) {
    for (status, answer) in answers(operation) {
        if answer.pointer("/content/application~1json/schema/$ref") != Some(&json!(PROBLEM)) {
            continue;
        }
        let shared = REFUSALS.iter().find(|(of, ..)| of == status);
        *answer = match (answer["description"].as_str().filter(|words| !words.is_empty()), shared) {
            (None, Some((_, name, _))) => json!({"$ref": format!("#/components/responses/{name}")}),
            (words, _) => refusal(words.unwrap_or(words_of(status))),
        };
    }
}

/// Words for the answers that have none: those of their shape, or those of their status.
fn describe_answers(operation: &mut Value, schemas: &Value) {
    for (status, answer) in answers(operation) {
        let is_shared = answer.get("$ref").is_some();
        if is_shared || answer["description"].as_str().is_some_and(|words| !words.is_empty()) {
            continue;
        }
        let shape = answer["content"]["application/json"]["schema"]["$ref"].as_str();
        let shape = shape.and_then(|shape| shape.rsplit('/').next());
        let words = shape.and_then(|shape| schemas[shape]["description"].as_str());
        answer["description"] = words.unwrap_or(words_of(status)).trim_end_matches('.').into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_one_sentence_and_the_description_has_all_of_it() {
        let mut operation = json!({"summary": "Make a key. It is shown\nthis once.", "description": "Keep it."});
        describe(&mut operation);
        assert_eq!(operation["summary"], "Make a key.");
        assert_eq!(operation["description"], "Make a key. It is shown this once.\n\nKeep it.");
    }

    #[test]
    fn parameters_of_a_path_are_named_after_what_they_stand_for() {
        for (path, name, words) in [
            ("/api/v1/runs/{id}/cancel", "id", "Identifier of the run"),
            ("/api/v1/queues/{name}", "name", "Name of the queue"),
            ("/api/v1/pools/{pool}/runners/{id}", "pool", "Name of the pool"),
            ("/api/v1/pools/{pool}/runners/{id}", "id", "Identifier of the runner"),
        ] {
            let mut operation = json!({"parameters": [{"name": name, "in": "path"}]});
            name_parameters(path, &mut operation);
            assert_eq!(operation["parameters"][0]["description"], words, "{path}");
        }
    }

    #[test]
    fn an_api_key_may_be_shown_as_bearer_with_everything_else_that_is_shown() {
        let mut operation = json!({"security": [{"vm_token": []}, {"api_key": ["worker"], "lease": []}]});
        add_bearer(&mut operation);
        let all = json!([{"vm_token": []}, {"api_key": ["worker"], "lease": []}, {"bearer": ["worker"], "lease": []}]);
        assert_eq!(operation["security"], all);
    }

    #[test]
    fn an_answer_without_words_gets_those_of_its_shape_or_its_status() {
        let schemas = json!({"RunPage": {"description": "A page of runs."}});
        let shape =
            |name: &str| json!({"application/json": {"schema": {"$ref": format!("#/components/schemas/{name}")}}});
        let mut operation = json!({"responses": {
            "200": {"content": shape("RunPage")}, "204": {}, "409": {"content": shape("Problem")}, "404": {"description": "Mine"},
        }});
        share_refusals(&mut operation);
        describe_answers(&mut operation, &schemas);
        let said = |status: &str| operation["responses"][status]["description"].clone();
        assert_eq!(said("200"), "A page of runs");
        assert_eq!(said("204"), words_of("204"));
        assert_eq!(operation["responses"]["409"], json!({"$ref": "#/components/responses/Conflict"}));
        assert_eq!(said("404"), "Mine");
        assert_eq!(operation["responses"]["204"].get("content"), None);
    }
}
