//! What of a change of the document breaks callers. A pure function of two documents, so that a table of small ones tests it.

use std::collections::BTreeSet;

use serde_json::Value;

/// Whose side of a shape is looked at: what callers send may be taken more freely, what they are answered may not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Request,
    Answer,
}

/// Everything in `new` that a program written for `old` would stumble over.
pub fn breaks(old: &Value, new: &Value) -> Vec<String> {
    let mut found = Breaks { old, new, seen: BTreeSet::new(), found: Vec::new() };
    for (path, item) in fields(&old["paths"]) {
        for (method, operation) in fields(item) {
            let route = format!("{} {path}", method.to_uppercase());
            match new["paths"][path].get(method) {
                Some(now) => found.operation(&route, operation, now),
                None => found.say(format!("{route} is gone")),
            }
        }
    }
    found.found
}

/// True when the version says that callers have to look: its major number moved, or its minor.
pub fn is_announced(old: &Value, new: &Value) -> bool {
    let number = |document: &Value| -> Vec<String> {
        let version = document["info"]["version"].as_str().unwrap_or_default();
        version.split('.').take(2).map(str::to_owned).collect()
    };
    number(old) != number(new)
}

struct Breaks<'a> {
    old: &'a Value,
    new: &'a Value,
    /// Shapes that were compared, so that those that contain themselves come to an end.
    seen: BTreeSet<(String, String, bool)>,
    found: Vec<String>,
}

impl<'a> Breaks<'a> {
    fn say(&mut self, words: String) {
        self.found.push(words);
    }

    fn operation(&mut self, route: &str, old: &'a Value, new: &'a Value) {
        if old["operationId"] != new["operationId"] {
            self.say(format!("{route}: operationId is no longer {}", old["operationId"]));
        }
        let named = |operation: &'a Value| {
            let all = operation["parameters"].as_array().into_iter().flatten();
            all.map(|one| (format!("{} {}", one["in"], one["name"]), one)).collect::<Vec<_>>()
        };
        let (before, now) = (named(old), named(new));
        for (name, parameter) in &before {
            match now.iter().find(|(other, _)| other == name) {
                Some((_, other)) => {
                    self.shape(&format!("{route}: {name}"), &parameter["schema"], &other["schema"], Side::Request)
                }
                None => self.say(format!("{route}: the parameter {name} is gone")),
            }
        }
        for (name, parameter) in &now {
            let was_required = before.iter().any(|(other, one)| other == name && one["required"] == true);
            if parameter["required"] == true && !was_required {
                self.say(format!("{route}: the parameter {name} is required now"));
            }
        }
        let place = format!("{route}: the body");
        self.contents(&place, &old["requestBody"]["content"], &new["requestBody"]["content"], Side::Request);
        for (status, answer) in fields(&old["responses"]).filter(|(status, _)| status.starts_with('2')) {
            match new["responses"].get(status) {
                Some(now) => {
                    let place = format!("{route}: {status}");
                    self.contents(&place, &answer["content"], &now["content"], Side::Answer);
                }
                None => self.say(format!("{route}: the answer {status} is gone")),
            }
        }
    }

    fn contents(&mut self, place: &str, old: &'a Value, new: &'a Value, side: Side) {
        for (kind, content) in fields(old) {
            match new.get(kind) {
                Some(now) => self.shape(place, &content["schema"], &now["schema"], side),
                None => self.say(format!("{place}: {kind} is gone")),
            }
        }
    }

    fn shape(&mut self, place: &str, old: &'a Value, new: &'a Value, side: Side) {
        let names = (old["$ref"].to_string(), new["$ref"].to_string(), side == Side::Answer);
        let is_named = old.get("$ref").is_some() || new.get("$ref").is_some();
        if is_named && !self.seen.insert(names) {
            return;
        }
        let (old, new) = (resolved(self.old, old), resolved(self.new, new));
        let (types, types_now) = (types(old), types(new));
        let fits = match side {
            Side::Request => is_within(&types, &types_now),
            Side::Answer => is_within(&types_now, &types),
        };
        if !fits {
            self.say(format!("{place} has another type: {} instead of {}", new["type"], old["type"]));
        }
        self.words(place, old, new, side);
        for (name, property) in fields(&old["properties"]) {
            match new["properties"].get(name) {
                Some(now) => self.shape(&format!("{place}: {name}"), property, now, side),
                None => self.say(format!("{place}: {name} is gone")),
            }
        }
        let (must, must_now) = (texts(&old["required"]), texts(&new["required"]));
        let changed = match side {
            Side::Request => must_now.difference(&must),
            Side::Answer => must.difference(&must_now),
        };
        for name in changed.cloned().collect::<Vec<_>>() {
            let words = if side == Side::Request { "is required now" } else { "may be missing now" };
            self.say(format!("{place}: {name} {words}"));
        }
        for part in ["items", "additionalProperties"] {
            if old[part].is_object() && new[part].is_object() {
                self.shape(&format!("{place}: {part}"), &old[part], &new[part], side);
            }
        }
        for part in ["oneOf", "anyOf", "allOf"] {
            let list = |shape: &'a Value| shape[part].as_array().map(Vec::as_slice).unwrap_or_default();
            if list(old).len() != list(new).len() {
                self.say(format!("{place}: has {} alternatives instead of {}", list(new).len(), list(old).len()));
            }
            for (before, now) in list(old).iter().zip(list(new)) {
                self.shape(place, before, now, side);
            }
        }
    }

    fn words(&mut self, place: &str, old: &Value, new: &Value, side: Side) {
        let (words, now) = (texts(&old["enum"]), texts(&new["enum"]));
        if words.is_empty() && !now.is_empty() && side == Side::Request {
            self.say(format!("{place} takes only some words now"));
        }
        if now.is_empty() {
            return;
        }
        for gone in words.difference(&now) {
            self.found.push(format!("{place}: the word {gone} is gone"));
        }
    }
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// The shape that a reference stands for.
fn resolved<'a>(document: &'a Value, shape: &'a Value) -> &'a Value {
    let name = shape["$ref"].as_str().and_then(|reference| reference.rsplit('/').next());
    name.map_or(shape, |name| &document["components"]["schemas"][name])
}

/// The types of a shape; none means any.
fn types(shape: &Value) -> BTreeSet<String> {
    shape["type"].as_str().map(str::to_owned).into_iter().chain(texts(&shape["type"])).collect()
}

/// True when everything of the one type is of the other as well.
fn is_within(one: &BTreeSet<String>, other: &BTreeSet<String>) -> bool {
    other.is_empty() || (!one.is_empty() && one.is_subset(other))
}

fn texts(list: &Value) -> BTreeSet<String> {
    list.as_array().into_iter().flatten().map(|word| word.as_str().unwrap_or("null").to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(body: Value, answer: Value) -> Value {
        let content = |schema: Value| json!({"content": {"application/json": {"schema": schema}}});
        let shapes = json!({"Tree": {"type": "object", "properties": {"of": {"$ref": "#/components/schemas/Tree"}}}});
        json!({"info": {"version": "1.2.3"}, "components": {"schemas": shapes}, "paths": {"/a": {"post": {
            "operationId": "doIt",
            "parameters": [{"name": "limit", "in": "query", "schema": {"type": "integer"}}],
            "requestBody": content(body), "responses": {"200": content(answer)},
        }}}})
    }

    fn object(properties: Value, required: Value) -> Value {
        json!({"type": "object", "properties": properties, "required": required})
    }

    #[test]
    fn what_callers_stumble_over_is_named_and_nothing_else() {
        let (text, number) = (json!({"type": "string"}), json!({"type": "integer"}));
        let words = |words: Value| json!({"type": "string", "enum": words});
        let base = || object(json!({"a": text}), json!(["a"]));
        let bare = || document(base(), base());
        let asked = |body: Value| document(body, base());
        let told = |answer: Value| document(base(), answer);
        let changed = |pointer: &str, value: Value| {
            let mut document = bare();
            *document.pointer_mut(pointer).unwrap() = value;
            document
        };
        let more = object(json!({"a": text, "b": text}), json!(["a"]));
        let tree = || told(json!({"$ref": "#/components/schemas/Tree"}));
        let table = [
            (bare(), bare(), ""),
            (tree(), tree(), ""),
            (bare(), changed("/paths", json!({})), "POST /a is gone"),
            (bare(), changed("/paths/~1a", json!({})), "POST /a is gone"),
            (bare(), changed("/paths/~1a/post/operationId", json!("do")), "operationId is no longer \"doIt\""),
            (bare(), changed("/paths/~1a/post/parameters", json!([])), "the parameter \"query\" \"limit\" is gone"),
            (bare(), changed("/paths/~1a/post/parameters/0/schema", text.clone()), "has another type"),
            (bare(), changed("/paths/~1a/post/responses", json!({})), "the answer 200 is gone"),
            (bare(), asked(more.clone()), ""),
            (asked(more.clone()), bare(), "the body: b is gone"),
            (bare(), asked(object(json!({"a": text, "b": text}), json!(["a", "b"]))), "b is required now"),
            (bare(), asked(object(json!({"a": text}), json!([]))), ""),
            (bare(), asked(object(json!({"a": number}), json!(["a"]))), "a has another type"),
            (bare(), asked(object(json!({"a": {}}), json!(["a"]))), ""),
            (bare(), asked(object(json!({"a": words(json!(["x"]))}), json!(["a"]))), "a takes only some words now"),
            (bare(), told(more.clone()), ""),
            (told(more), bare(), "200: b is gone"),
            (bare(), told(object(json!({"a": text}), json!([]))), "a may be missing now"),
            (bare(), told(object(json!({"a": {"type": ["string", "null"]}}), json!(["a"]))), "a has another type"),
            (told(words(json!(["x", "y"]))), told(words(json!(["x"]))), "the word y is gone"),
            (told(words(json!(["x"]))), told(words(json!(["x", "y"]))), ""),
            (told(json!({"oneOf": [text]})), told(json!({"oneOf": [text, number]})), "has 2 alternatives instead of 1"),
            (told(json!({"items": text})), told(json!({"items": number})), "items has another type"),
        ];
        for (row, (old, new, expected)) in table.iter().enumerate() {
            let found = breaks(old, new);
            let fits =
                if expected.is_empty() { found.is_empty() } else { found.iter().any(|one| one.contains(expected)) };
            assert!(fits, "row {row}: {found:?} instead of {expected:?}");
        }
    }

    #[test]
    fn only_a_new_major_or_minor_version_announces_it() {
        let version = |version: &str| json!({"info": {"version": version}});
        for (old, new, announced) in [("1.2.3", "1.2.4", false), ("1.2.3", "1.3.0", true), ("1.2.3", "2.2.0", true)] {
            assert_eq!(is_announced(&version(old), &version(new)), announced, "{old} to {new}");
        }
    }
}
