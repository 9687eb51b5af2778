//! Lists of runs over the wire, on both stores: nothing, normal and absurd data, filters, pages, acting on many, the palette.

mod common;

use baton::proto::{Claim, CompleteRun, FailRun, RegisterWorker, StartRun, SubmitRun};
use common::{ABSURD, Answer, KEY, Session, Site as Server};
use serde_json::json;
use serde_json::value::to_raw_value;

/// Somebody who looks.
struct Visitor<'a> {
    server: &'a Server,
    session: Session,
}

impl Visitor<'_> {
    async fn of<'a>(server: &'a Server, key: &str) -> Visitor<'a> {
        Visitor { server, session: server.sign_in(key).await }
    }

    async fn page(&self, path: &str) -> String {
        let answer = self.server.get(&self.session, path).await;
        answer.assert_harmless();
        answer.body
    }

    /// A page that says why there is none.
    async fn refusal(&self, path: &str) -> String {
        let answer = self.server.get(&self.session, path).await;
        assert!(answer.status == 403 || answer.status == 404, "{path}: {answer:?}");
        assert!(!answer.body.contains("<script>alert"), "{path}");
        answer.body
    }

    async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        self.server.post_plain(&self.session, path, fields).await
    }
}

fn location(answer: &Answer) -> &str {
    answer.headers.get("location").and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Makes one test on SQLite and one on PostgreSQL of each case.
macro_rules! on_both {
    ($($case:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case(super::Server::start().await).await;
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let database = baton_testkit::database().await;
                let url = database.url().to_owned();
                super::$case(super::Server::with(|settings| settings.database_url = Some(url)).await).await;
            })+
        }
    };
}

on_both!(
    empty_lists_teach,
    a_row_says_what_is_worth_knowing,
    filters_find_what_they_say,
    words_are_looked_for_in_ids_keys_and_messages,
    pages_go_both_ways_without_gaps,
    new_runs_are_counted_and_never_push,
    absurd_names_stay_text,
    who_may_only_read_sees_no_action_and_is_refused,
    nobody_sees_another_namespace,
    chosen_runs_are_counted_then_cancelled,
    all_that_match_become_an_operation,
    what_is_wrong_with_a_submission_is_said_at_its_field,
    the_palette_finds_things_by_a_part_of_their_name,
    workflows_are_listed_by_type_and_version,
);

async fn submit(server: &Server, queue: &str, kind: &str, key: Option<&str>) -> String {
    let run = SubmitRun { key: key.map(str::to_owned), ..SubmitRun::new(queue, kind) };
    server.client.submit(&run).await.unwrap().id
}

/// A worker that has taken one run and not begun it: its identifier, and the run's lease.
async fn taken(server: &Server, name: &str, queue: &str, kind: &str) -> (String, String, String) {
    let wanted = json!({ "name": name, "queues": [queue], "types": [kind], "max_concurrent": 9 });
    let worker: RegisterWorker = serde_json::from_value(wanted).unwrap();
    let worker = server.client.register(&worker).await.unwrap().worker_id;
    let claim: Claim = serde_json::from_value(json!({ "max": 1 })).unwrap();
    let claimed = server.client.claim(&worker, &claim).await.unwrap().runs;
    let run = claimed.into_iter().next().unwrap();
    (worker, run.run_id, run.lease)
}

fn rows(page: &str) -> Vec<&str> {
    page.split("<tr id=\"r-").skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

async fn found(visitor: &Visitor<'_>, path: &str) -> Vec<String> {
    rows(&visitor.page(path).await).into_iter().map(str::to_owned).collect()
}

async fn empty_lists_teach(server: Server) {
    let visitor = Visitor::of(&server, KEY).await;
    for path in ["/runs", "/builds", "/workflows/runs", "/workflows"] {
        let page = visitor.page(path).await;
        assert!(
            page.contains("yet.") && page.contains("baton ") && page.contains("http://127.0.0.1:"),
            "{path}: {page}"
        );
    }
    assert!(visitor.page("/runs?q=key:nobody*").await.contains("No run matches."));
    assert!(visitor.page("/runs?state=failed").await.contains("No run matches."));
}

async fn a_row_says_what_is_worth_knowing(server: Server) {
    let visitor = Visitor::of(&server, KEY).await;
    submit(&server, "mail", "digest", Some("acme-0412")).await;
    let page = visitor.page("/runs").await;
    assert!(page.contains("no worker serves type digest") && page.contains("first in line"), "{page}");
    let (_, run, lease) = taken(&server, "orders-1", "mail", "digest").await;
    let page = visitor.page("/runs").await;
    assert!(page.contains("starting") && page.contains("orders-1") && page.contains("data-until"), "{page}");
    let start: StartRun = serde_json::from_value(json!({ "lease": lease })).unwrap();
    server.client.start_run(&run, &start).await.unwrap();
    let done: CompleteRun = serde_json::from_value(json!({ "lease": lease, "output": { "shipped": true } })).unwrap();
    server.client.complete(&run, &done).await.unwrap();
    let page = visitor.page("/runs").await;
    assert!(page.contains("{&quot;shipped&quot;:true}") && page.contains("by orders-1"), "{page}");
    submit(&server, "mail", "digest", None).await;
    let (_, run, lease) = taken(&server, "orders-2", "mail", "digest").await;
    let failed: FailRun = serde_json::from_value(
        json!({ "lease": lease, "error": "provider: no answer\nat line 7", "retryable": false }),
    )
    .unwrap();
    server.client.fail(&run, &failed).await.unwrap();
    let page = visitor.page("/runs?state=failed").await;
    assert!(page.contains("provider: no answer") && !page.contains("at line 7</"), "{page}");
    let later = SubmitRun { delay_ms: Some(60_000), ..SubmitRun::new("mail", "digest") };
    server.client.submit(&later).await.unwrap();
    let page = visitor.page("/runs?state=later").await;
    assert!(page.contains("due later") && page.contains("in 1 min"), "{page}");
}

async fn filters_find_what_they_say(server: Server) {
    let visitor = Visitor::of(&server, KEY).await;
    let mail = submit(&server, "mail", "digest", Some("order-204-a")).await;
    let other = submit(&server, "media", "resize", Some("order-205")).await;
    let build = submit(&server, "builds", "ios", None).await;
    for (query, expected) in [
        ("", vec![&build, &other, &mail]),
        ("?q=queue:mail", vec![&mail]),
        ("?q=type:res*", vec![&other]),
        ("?q=key:order-204*", vec![&mail]),
        ("?q=key:order-205", vec![&other]),
        ("?q=key:order-20", vec![]),
        ("?q=key:order-20*+queue:media", vec![&other]),
        ("?q=state:waiting+why:no_worker+queue:mail", vec![&mail]),
        ("?q=why:queue_paused", vec![]),
        ("?q=since:1h&state=waiting", vec![&build, &other, &mail]),
        ("?q=worker:nobody", vec![]),
        ("?state=running", vec![]),
        ("?state=completed&q=queue:mail", vec![]),
        ("?q=queue:mail+queue:media", vec![&other, &mail]),
    ] {
        assert_eq!(found(&visitor, &format!("/runs{query}")).await.iter().collect::<Vec<_>>(), expected, "{query}");
    }
    for nonsense in
        ["sate:waiting", "state:wating", "label.team=shop", "why:bored", "since:soon", "%22", "%00", "after"]
    {
        let page = visitor.page(&format!("/runs?q={nonsense}&after=x&before=y&state=z&kind=9&shown=1.2")).await;
        assert!(page.contains("id=\"q\""), "{nonsense}");
    }
    assert!(visitor.page("/runs?q=sate:waiting").await.contains("There is no token sate:"));
}

async fn words_are_looked_for_in_ids_keys_and_messages(server: Server) {
    let visitor = Visitor::of(&server, KEY).await;
    let keyed = submit(&server, "mail", "digest", Some("order-204")).await;
    let (_, run, lease) = taken(&server, "w", "mail", "digest").await;
    let failed: FailRun =
        serde_json::from_value(json!({ "lease": lease, "error": "Provider gave NO Answer", "retryable": false }))
            .unwrap();
    server.client.fail(&run, &failed).await.unwrap();
    submit(&server, "mail", "digest", None).await;
    let end = &keyed[keyed.len() - 6..];
    let full = keyed.clone();
    for words in ["order-2", end, &keyed, &full[..20], "no+answer", "%22no+answer%22"] {
        let rows = found(&visitor, &format!("/runs?q={words}")).await;
        assert!(rows.contains(&keyed), "{words}: {rows:?}");
    }
    assert_eq!(found(&visitor, "/runs?q=nothing-like-it").await, [""; 0]);
}

async fn pages_go_both_ways_without_gaps(server: Server) {
    let visitor = Visitor::of(&server, KEY).await;
    let mut all = Vec::new();
    for number in 0..230 {
        all.push(submit(&server, "mail", if number % 2 == 0 { "digest" } else { "report" }, None).await);
    }
    all.reverse();
    let first = found(&visitor, "/runs").await;
    assert_eq!(first, all[..100]);
    let second = found(&visitor, &format!("/runs?after={}", first[99])).await;
    assert_eq!(second, all[100..200]);
    let third = found(&visitor, &format!("/runs?after={}", second[99])).await;
    assert_eq!(third, all[200..]);
    assert_eq!(found(&visitor, &format!("/runs?before={}", third[0])).await, second);
    assert_eq!(found(&visitor, &format!("/runs?before={}&state=waiting", second[0])).await, first);
    let digests: Vec<String> = all.iter().skip(1).step_by(2).cloned().collect();
    let page = visitor.page("/runs?q=type:digest").await;
    assert_eq!(rows(&page), digests[..100]);
    assert!(page.contains("Older") && !page.contains("Newer</a>"), "{page}");
    let rest = found(&visitor, &format!("/runs?q=type:digest&after={}", digests[99])).await;
    assert_eq!(rest, digests[100..]);
}

async fn new_runs_are_counted_and_never_push(server: Server) {
    let visitor = Visitor::of(&server, KEY).await;
    let old = submit(&server, "mail", "digest", None).await;
    let page = visitor.page("/runs?state=waiting").await;
    let followed = page.split("data-live=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let followed = followed.replace("&amp;", "&");
    assert!(followed.contains("shown="), "{followed}");
    submit(&server, "mail", "digest", None).await;
    submit(&server, "mail", "digest", None).await;
    let page = visitor.page(&followed).await;
    assert_eq!(rows(&page), [old.as_str()]);
    assert!(page.contains("2 newer runs"), "{page}");
    // A row that no longer matches stays, with its new state.
    server.client.cancel(&old).await.unwrap();
    let page = visitor.page(&followed).await;
    assert_eq!(rows(&page), [old.as_str()]);
    assert!(page.contains("cancelled"), "{page}");
    assert_eq!(found(&visitor, "/runs?state=waiting").await.len(), 2);
}

async fn absurd_names_stay_text(server: Server) {
    let visitor = Visitor::of(&server, KEY).await;
    let long = "n".repeat(199);
    for name in ABSURD.into_iter().chain(["a\"b'c", &long]) {
        let run = SubmitRun {
            key: Some(name.to_owned()),
            input: Some(to_raw_value(&json!({ "text": name })).unwrap()),
            ..SubmitRun::new("odd", name)
        };
        // What the API does not take cannot be shown.
        let Ok(run) = server.client.submit(&run).await else { continue };
        let page = visitor.page("/runs").await;
        assert!(rows(&page).contains(&run.id.as_str()), "{name}");
    }
    visitor.page("/runs?q=%3Cscript%3Ealert(1)%3C/script%3E").await;
    visitor.page("/runs?q=key:%3Cscript%3Ealert(1)%3C/script%3E").await;
    visitor.page("/find?q=%3Cscript%3Ealert(1)").await;
    visitor.refusal("/workflows/types/%3Cscript%3Ealert(1)%3C%2Fscript%3E").await;
}

async fn who_may_only_read_sees_no_action_and_is_refused(server: Server) {
    let run = submit(&server, "mail", "digest", None).await;
    let key = server.key(&["read"], None).await;
    let reader = Visitor::of(&server, &key).await;
    let page = reader.page("/runs").await;
    assert!(rows(&page).contains(&run.as_str()));
    assert!(!page.contains("Submit") && !page.contains("name=\"id\"") && !page.contains("Cancel…"), "{page}");
    for (path, fields) in [
        ("/runs/ask", vec![("verb", "cancel"), ("id", run.as_str())]),
        ("/runs/act", vec![("verb", "cancel"), ("id", run.as_str())]),
        ("/runs/act", vec![("verb", "cancel"), ("filter", "{\"queue\":\"mail\"}"), ("once", "1")]),
        ("/runs/submit", vec![("type", "digest"), ("queue", "mail")]),
    ] {
        let answer = reader.post(path, &fields).await;
        assert_eq!(answer.status, 403, "{path}: {answer:?}");
    }
    assert!(reader.refusal("/runs/new").await.contains("Not allowed"));
    let foreign = Visitor { session: reader.session.without_csrf(), ..reader };
    let answer = foreign.post("/runs/act", &[("verb", "cancel")]).await;
    assert_eq!(answer.status, 403);
    assert_eq!(server.client.run(&run).await.unwrap().state, baton_core::State::Pending);
}

async fn nobody_sees_another_namespace(server: Server) {
    let run = submit(&server, "mail", "digest", Some("secret-key")).await;
    let key = server.key(&["submit"], Some("team")).await;
    let other = Visitor::of(&server, &key).await;
    for path in [
        "/runs",
        "/builds",
        "/workflows",
        "/find?q=secret",
        "/find?q=digest",
        "/runs?q=secret-key",
        "/runs?q=state:waiting",
    ] {
        let page = other.page(path).await;
        assert!(rows(&page).is_empty() && !page.contains(&run), "{path}: {page}");
    }
    let shown = other.page(&format!("/runs?shown={}", run.replace('-', ""))).await;
    assert!(!shown.contains(&run), "{shown}");
    for path in ["/runs?ns=default", "/workflows?ns=default", "/runs/new?ns=default"] {
        assert!(other.refusal(path).await.contains("Not allowed"), "{path}");
    }
    let answer = other.post("/runs/act", &[("verb", "cancel"), ("id", &run)]).await;
    assert!(answer.body.as_str().contains("there is no run"), "{answer:?}");
    let answer = other.post("/runs/submit", &[("ns", "default"), ("type", "x")]).await;
    assert_eq!(answer.status, 403);
    assert_eq!(server.client.run(&run).await.unwrap().state, baton_core::State::Pending);
}

async fn chosen_runs_are_counted_then_cancelled(server: Server) {
    let visitor = Visitor::of(&server, KEY).await;
    let (one, two) = (submit(&server, "mail", "digest", None).await, submit(&server, "mail", "digest", None).await);
    let ended = submit(&server, "mail", "digest", None).await;
    server.client.cancel(&ended).await.unwrap();
    let fields = [("verb", "cancel"), ("id", one.as_str()), ("id", two.as_str()), ("id", ended.as_str())];
    let asked = visitor.post("/runs/ask", &fields).await;
    let text = asked.body.as_str();
    assert!(text.contains("Cancel 2 runs?") && text.contains("1 other one cannot be cancelled"), "{text}");
    let acted = visitor.post("/runs/act", &fields).await;
    assert!(acted.body.as_str().contains("it has already ended") || acted.status == 303, "{acted:?}");
    for run in [&one, &two] {
        assert_eq!(server.client.run(run).await.unwrap().state, baton_core::State::Cancelled);
    }
    let retried = visitor.post("/runs/act", &[("verb", "retry"), ("id", &one), ("next", "/runs?state=waiting")]).await;
    assert_eq!((retried.status, location(&retried)), (303, "/runs?state=waiting"));
    assert_eq!(found(&visitor, "/runs?state=waiting").await.len(), 1);
    let nothing = visitor.post("/runs/ask", &[("verb", "cancel")]).await;
    assert!(nothing.body.as_str().contains("nothing is selected"), "{nothing:?}");
    let wrong = visitor.post("/runs/ask", &[("verb", "explode"), ("id", &one)]).await;
    assert!(wrong.status / 100 == 4);
}

async fn all_that_match_become_an_operation(server: Server) {
    let visitor = Visitor::of(&server, KEY).await;
    for _ in 0..101 {
        submit(&server, "mail", "digest", None).await;
    }
    let other = submit(&server, "media", "resize", None).await;
    let fields = [("verb", "cancel"), ("all", "1"), ("q", "queue:mail"), ("state", "waiting")];
    let asked = visitor.post("/runs/ask", &fields).await;
    let text = asked.body.clone();
    assert!(text.contains("Cancel 101 runs?") && text.contains("Type 101 to go on"), "{text}");
    let hidden = |name: &str| {
        let value = text.split(&format!("name=\"{name}\" value=\"")).nth(1).and_then(|rest| rest.split('"').next());
        value.unwrap_or_default().replace("&quot;", "\"")
    };
    let (filter, once, count) = (hidden("filter"), hidden("once"), hidden("count"));
    let begin = async |typed: &str| {
        let fields = [
            ("verb", "cancel"),
            ("filter", filter.as_str()),
            ("once", once.as_str()),
            ("count", count.as_str()),
            ("typed", typed),
        ];
        visitor.post("/runs/act", &fields).await
    };
    assert!(begin("7").await.status / 100 == 4);
    let begun = begin("101").await;
    assert_eq!(begun.status, 303, "{begun:?}");
    // The same form again is the same operation.
    assert_eq!(location(&begin("1 0 1").await), location(&begun));
    let page = visitor.page(location(&begun)).await;
    assert!(page.contains("ancel"), "{page}");
    let id = location(&begun).trim_start_matches("/bulk/").to_owned();
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    while server.client.bulk(&id).await.unwrap().ended_at.is_none() {
        assert!(tokio::time::Instant::now() < deadline, "the operation does not end");
        server.clock.advance(1_000);
        tokio::task::yield_now().await;
    }
    assert_eq!(found(&visitor, "/runs?state=waiting").await, [other]);
    assert!(visitor.page(location(&begun)).await.contains("101 cancelled"));
    let narrow =
        visitor.post("/runs/ask", &[("verb", "retry"), ("all", "1"), ("q", "type:dig*"), ("state", "cancelled")]).await;
    assert!(narrow.body.as_str().contains("Retry 101 runs?"), "{narrow:?}");
    let none = visitor.post("/runs/ask", &[("verb", "retry"), ("all", "1"), ("state", "waiting")]).await;
    assert!(none.status / 100 == 4, "{none:?}");
}

async fn what_is_wrong_with_a_submission_is_said_at_its_field(server: Server) {
    let visitor = Visitor::of(&server, KEY).await;
    assert!(visitor.page("/runs/new").await.contains("name=\"type\""));
    for (fields, field) in [
        (vec![("queue", "mail")], "wrong-type"),
        (vec![("type", "digest"), ("input", "{")], "wrong-input"),
        (vec![("type", "digest"), ("priority", "11")], "wrong-priority"),
        (vec![("type", "digest"), ("due_at", "soon")], "wrong-due_at"),
    ] {
        let answer = visitor.post("/runs/submit", &fields).await;
        assert!(answer.body.as_str().contains(field), "{fields:?}: {answer:?}");
    }
    let answer = visitor
        .post("/runs/submit", &[("type", "digest"), ("queue", "mail"), ("input", "{\"a\":1}"), ("priority", "9")])
        .await;
    assert_eq!(answer.status, 303, "{answer:?}");
    let run = server.client.run(location(&answer).trim_start_matches("/runs/")).await.unwrap();
    assert_eq!((run.kind.as_str(), run.priority), ("digest", 9));
    let answer =
        visitor.post("/runs/submit", &[("kind", "workflow"), ("type", "process_order"), ("queue", "orders")]).await;
    assert_eq!(answer.status, 303, "{answer:?}");
    assert!(visitor.page("/workflows").await.contains("process_order"));
}

async fn the_palette_finds_things_by_a_part_of_their_name(server: Server) {
    let visitor = Visitor::of(&server, KEY).await;
    let run = submit(&server, "mail", "digest", Some("order-204")).await;
    taken(&server, "mailer-1", "mail", "digest").await;
    let found = visitor.page("/find?q=").await;
    assert!(found.contains("/queues") && found.contains("/workers"), "{found}");
    let found = visitor.page("/find?q=mail").await;
    assert!(found.contains("/queues/mail") && found.contains("mailer-1"), "{found}");
    for text in ["order-20", &run, &run[run.len() - 6..]] {
        assert!(visitor.page(&format!("/find?q={text}")).await.contains(&run), "{text}");
    }
    let found = visitor.page("/find?q=zzzz").await;
    assert!(found.contains("key:zzzz%2A") || found.contains("key:zzzz*"), "{found}");
}

async fn workflows_are_listed_by_type_and_version(server: Server) {
    let visitor = Visitor::of(&server, KEY).await;
    for (kind, queue) in [("process_order", "orders"), ("poller", "default")] {
        visitor.post("/runs/submit", &[("kind", "workflow"), ("type", kind), ("queue", queue)]).await;
    }
    let page = visitor.page("/workflows").await;
    assert!(page.contains("process_order") && page.contains("poller"), "{page}");
    let page = visitor.page("/workflows/types/process_order").await;
    assert!(page.contains("orders") && rows(&page).len() == 1, "{page}");
    assert!(visitor.refusal("/workflows/types/nobody").await.contains("No such workflow type"));
    assert_eq!(found(&visitor, "/workflows/runs?q=type:process_order").await.len(), 1);
    assert_eq!(found(&visitor, "/runs?kind=workflow").await.len(), 2);
    assert_eq!(found(&visitor, "/runs?kind=run").await.len(), 0);
}
