//! What nobody should have, and somebody will: names as long as the server takes them, text from right to left, markup,
//! control characters, ten thousand steps, hundreds of queues and workers, thousands of machines.

use baton::proto::{RegisterWorker, SubmitRun};
use baton_core::Millis;
use baton_store::{StepChange, StepKind, StepWrite};
use bytes::Bytes;
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use crate::common::{ABSURD, Site, encoded};
use crate::crew::{Crew, Hire, from};
use crate::machines::Paper;
use crate::pages::Shot;

const BEGIN_LATER: Millis = 90_000_000_000;
const STEPS: u32 = 10_000;
const MACHINES: u32 = 2_000;
/// A server takes names of up to so many bytes.
const LONG: usize = 200;
const MIRRORED: &str = "مرحبا بالعالم, this is written from right to left";

/// One word of a length that no screen has room for.
fn long(begin: &str) -> String {
    begin.chars().chain("abcdefghijklmnopqrstuvwxyz0123456789_".chars().cycle()).take(LONG).collect()
}

/// A type of workflows, with room for its version.
fn flow_type() -> String {
    long("flow_").chars().take(LONG - 4).collect()
}

/// As long, in words.
fn wordy(begin: &str) -> String {
    begin.chars().chain("a name of many words that never comes to its end ".chars().cycle()).take(LONG - 1).collect()
}

/// Names of which all are taken.
fn names() -> Vec<String> {
    let mut names = vec![long("queue_"), wordy("Queue "), MIRRORED.to_owned(), "🚀🔥 emoji 日本語 ｆｕｌｌ".to_owned()];
    names.extend(ABSURD.iter().filter(|name| !name.chars().any(char::is_control)).map(|name| (*name).to_owned()));
    names
}

/// Fills the server. Returns the pages worth a picture.
pub async fn fill(site: &Site) -> Vec<Shot> {
    site.clock.advance(BEGIN_LATER);
    let mut crew = Crew::new(site);
    let names = names();
    for name in &names {
        let taken = submit(site, name, name, Some(name)).await;
        assert!(taken, "the server refuses the name {name:?}");
        register(site, name, name, name).await;
    }
    for number in 0..300 {
        submit(site, &format!("queue-{number:03}"), "type", None).await;
    }
    for number in 0..200 {
        register(site, &format!("worker-{number:03}"), &format!("queue-{:03}", number % 150), "type").await;
    }
    administration(site, &names).await;
    let failed = failures(&mut crew).await;
    let flow = steps(&mut crew).await;
    let build = log(&mut crew).await;
    let paper = Paper::of(site);
    let large = pools(&mut crew, &paper).await;
    let mut shots = crate::pages::everywhere();
    shots.extend([
        Shot::new("run-steps", format!("/runs/{flow}")),
        Shot::new("run-step", format!("/runs/{flow}?step=9999")),
        Shot::new("run-log", format!("/runs/{build}")),
        Shot::new("run-failed", format!("/runs/{failed}")),
        Shot::new("queue-long", format!("/queues/{}", encoded(&names[0]))),
        Shot::new("queue-mirrored", format!("/queues/{}", encoded(MIRRORED))),
        Shot::new("pool-large", format!("/pools/{}", encoded(&large))),
        Shot::new("type", format!("/workflows/types/{}", encoded(&flow_type()))),
        Shot::new("schedule", format!("/schedules/{}", encoded(&long("schedule_")))),
        Shot::new("runs-filter", format!("/runs?q={}", encoded(&format!("queue:\"{}\" state:waiting", names[1])))),
        Shot::new("namespace", format!("/?ns={}", encoded(&wordy("Namespace ")))),
        Shot::new("runs-namespace", format!("/runs?ns={}", encoded(MIRRORED))),
    ]);
    for (list, name) in [("workers", "worker"), ("webhooks", "webhook")] {
        let found = site.api("GET", &format!("/api/v1/{list}?limit=1"), Value::Null).await;
        let id = found[list][0]["id"].as_str().unwrap_or("none").to_owned();
        shots.push(Shot::new(name, format!("/{list}/{id}")));
    }
    let waiting = site.api("GET", "/api/v1/runs?state=pending&limit=400", Value::Null).await;
    for run in waiting["runs"].as_array().into_iter().flatten() {
        if run["queue"] == names[0].as_str() {
            shots.push(Shot::new("run-long", format!("/runs/{}", run["id"].as_str().unwrap_or_default())));
        }
    }
    shots
}

async fn submit(site: &Site, queue: &str, kind: &str, key: Option<&str>) -> bool {
    let input = to_raw_value(&json!({ "text": ABSURD.join(" "), "long": "x".repeat(3_000), "nested": [[[[[[1]]]]]] }));
    let run = SubmitRun { input: input.ok(), key: key.map(str::to_owned), ..SubmitRun::new(queue, kind) };
    site.client.submit(&run).await.is_ok()
}

async fn register(site: &Site, name: &str, queue: &str, kind: &str) {
    let worker: RegisterWorker = from(json!({
        "name": name, "queues": [queue], "types": [kind], "max_concurrent": 4, "labels": { "zone": name, "version": "1" },
    }));
    site.client.register(&worker).await.expect("a worker registers");
}

async fn administration(site: &Site, names: &[String]) {
    for name in names {
        let key = json!({ "name": name, "scopes": ["admin", "submit", "worker", "read"] });
        site.client.create_key(&from(key)).await.expect("a key is made");
        let webhook = json!({ "name": name, "url": format!("http://localhost:9/{}", long("path")) });
        let _ = site.client.create_webhook(&from(webhook)).await;
    }
    for name in [wordy("Namespace "), MIRRORED.to_owned(), ABSURD[0].to_owned()] {
        let namespace = json!({ "name": name, "description": wordy("What it is for: ") });
        let made = site.client.create_namespace(&from(namespace)).await.is_ok();
        if made {
            let run = SubmitRun { namespace: name, ..SubmitRun::new("queue", "type") };
            let _ = site.client.submit(&run).await;
        }
    }
    let run = json!({ "queue": names[0], "type": names[1], "input": { "text": ABSURD.join(" ") } });
    for id in [long("schedule_"), MIRRORED.to_owned(), ABSURD[0].to_owned()] {
        let schedule = json!({ "id": id, "cron": "*/7 3-5,9 1,15 * 1-5", "note": wordy("A note "), "run": run });
        let _ = site.client.create_schedule(&from(schedule)).await;
    }
}

/// A run that failed with all that can be said at once.
async fn failures(crew: &mut Crew<'_>) -> String {
    let name = ABSURD[1];
    let hire =
        Hire { name: "failing", queue: "failing", types: &["break"], slots: 4, takes: (0, 0), fails: 0, errors: &[] };
    let hand = crew.hire(hire).await;
    let mut last = String::new();
    for number in 0..4 {
        submit(crew.site, "failing", "break", Some(name)).await;
        let (run, lease) = crew.take(hand).await;
        let error = format!("{number} {}\n{}\n{}", ABSURD.join(" "), long("at_"), "    at a.b.c(d.rs:1)\n".repeat(60));
        let failed = from(json!({ "lease": lease, "error": error, "code": long("code"), "retryable": false }));
        if crew.site.client.fail(&run, &failed).await.is_err() {
            let failed = from(json!({ "lease": lease, "error": error, "code": "odd", "retryable": false }));
            crew.site.client.fail(&run, &failed).await.expect("a run fails");
        }
        crew.drop_taken(hand, &run);
        last = run;
    }
    last
}

async fn steps(crew: &mut Crew<'_>) -> String {
    let hire =
        Hire { name: "orders-1", queue: "orders", types: &["*"], slots: 4, takes: (0, 0), fails: 0, errors: &[] };
    let kind: &'static str = Box::leak(flow_type().into_boxed_str());
    let types: &'static [&'static str] =
        Box::leak(vec![&*Box::leak(format!("{kind}@1").into_boxed_str())].into_boxed_slice());
    let hand = crew.hire(Hire { types, ..hire }).await;
    crew.start_flow(kind, "1", MIRRORED, &json!({ "text": ABSURD.join(" ") })).await;
    let flow = crew.take_flow(hand).await;
    let names = names();
    let positions: Vec<u32> = (0..STEPS).collect();
    for chunk in positions.chunks(500) {
        let write = |position: &u32| StepWrite {
            lease: flow.lease,
            position: *position,
            name: if position.is_multiple_of(50) {
                names[*position as usize / 50 % names.len()].clone()
            } else {
                format!("step {}", position % 7)
            },
            kind: StepKind::Step,
            what: StepChange::Complete {
                output: Bytes::from(json!(ABSURD.join(" ")).to_string()),
                message: None,
                took_ms: 3,
            },
            journal_bytes_max: None,
        };
        crew.site.app.store.write_steps(chunk.iter().map(write).collect()).await.expect("the store writes");
        crew.pass(1_500).await;
    }
    flow.run.to_string()
}

async fn log(crew: &mut Crew<'_>) -> String {
    let hire =
        Hire { name: "builder", queue: "builds", types: &["linux"], slots: 4, takes: (0, 0), fails: 0, errors: &[] };
    let hand = crew.hire(hire).await;
    crew.build("linux", &wordy("Project "), &long("v")).await;
    let build = crew.take_build(hand).await;
    for number in 0..60 {
        let text = ABSURD[number % ABSURD.len()];
        crew.say(&build, [format!("{number} {text}"), "w".repeat(6_000), "many words ".repeat(300), MIRRORED.into()])
            .await;
    }
    crew.pass(3_000).await;
    build.run.to_string()
}

async fn pools(crew: &mut Crew<'_>, paper: &Paper) -> String {
    let large = long("pool_");
    crew.pool(&large, MACHINES, MACHINES).await;
    for _ in 0..80 {
        crew.pass(500).await;
        tokio::time::sleep(std::time::Duration::from_millis(60)).await;
    }
    paper.wake(crew.site, 300).await;
    crew.settle().await;
    for number in 0..6 {
        let run = format!("{number}{}", "r".repeat(LONG - 1));
        crew.claim_machines(&large, &run, 40).await;
    }
    crew.settle().await;
    large
}
