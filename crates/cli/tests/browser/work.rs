//! What people do with the dashboard besides looking at one run: submit, choose many, drain, follow a log, signal.

use std::time::Duration;

use baton::proto::{Claim, NewLogLine, RegisterWorker, SubmitGitBuild, SubmitRun};
use baton::{Client, Context, RunFilter, State, Worker, WorkflowError};
use serde_json::json;
use tokio::sync::oneshot;

use crate::rig::{Browser, KEY, Site, eventually, in_browser};

/// A worker that nobody but the test speaks for.
fn worker(queue: &str, kind: &str) -> RegisterWorker {
    let worker = json!({"name": "worker-1", "queues": [queue], "types": [kind], "max_concurrent": 4});
    serde_json::from_value(worker).unwrap()
}

/// Lines of the log that the page has.
async fn lines(browser: &Browser) -> u64 {
    let count = browser.run("return document.querySelectorAll('#log-lines li[id]').length").await;
    count.as_u64().unwrap_or_default()
}

/// Whether the end of the log is in sight.
async fn is_at_end(browser: &Browser) -> bool {
    let script = "const log = document.querySelector('#log-lines'); \
                  return log.scrollHeight - log.scrollTop - log.clientHeight < 40";
    browser.run(script).await == true
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_submitted_from_the_page() {
    let site = Site::start().await;
    in_browser(async |browser| {
        browser.sign_in(&site, KEY).await;
        browser.goto(&site.at("/runs/new")).await;
        browser.type_into("#type", "digest").await;
        browser.type_into("#queue", "mail").await;
        browser.type_into("#input", "{\"to\": ").await;
        browser.press("#submit button.primary").await;
        // What is wrong is said at the field, and what was typed stays.
        browser.reads("input ").await;
        browser.element("[role=alert]").await;
        assert!(browser.address().await.starts_with("/runs/new"));
        browser.run("document.querySelector('dialog[open] #input').value = ''").await;
        browser.type_into("dialog[open] #input", "{\"to\": \"ada\"}").await;
        browser.press("dialog[open] button.primary").await;
        eventually("the page of the run is shown", async || {
            let address = browser.address().await;
            address.starts_with("/runs/0")
        })
        .await;
        browser.reads("digest").await;
        let run = site.api.runs(&Default::default()).await.unwrap().runs.pop().unwrap();
        assert_eq!((run.queue.as_str(), run.kind.as_str()), ("mail", "digest"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_runs_are_chosen_counted_and_cancelled() {
    let site = Site::start().await;
    for _ in 0..3 {
        site.api.submit(&SubmitRun::new("work", "job")).await.unwrap();
    }
    let other = site.api.submit(&SubmitRun::new("mail", "letter")).await.unwrap().id;
    in_browser(async |browser| {
        browser.sign_in(&site, KEY).await;
        browser.goto(&site.at("/runs?q=queue%3Awork")).await;
        browser.element("tbody tr[data-row]").await;
        assert!(!browser.has("form.bulk:not([hidden])").await, "nothing is chosen yet");
        browser.press("th input[type=checkbox]").await;
        browser.mark().await;
        browser.press("form.bulk button[value=cancel]").await;
        // It counts first.
        browser.element("dialog[open]").await;
        browser.reads("3 runs").await;
        browser.press("dialog[open] button.danger, dialog[open] button.primary").await;
        eventually("all of them are cancelled", async || {
            let filter = RunFilter { queue: Some("work".into()), ..Default::default() };
            let runs = site.api.runs(&filter).await.unwrap().runs;
            runs.iter().all(|run| run.state == State::Cancelled)
        })
        .await;
        browser.reads("cancelled").await;
        assert!(browser.is_marked().await, "the page was loaded again");
        let other = site.api.run(&other).await.unwrap();
        assert_eq!(other.state, State::Pending, "it was not chosen");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_drained_from_the_list() {
    let site = Site::start().await;
    let worker = site.api.register(&worker("work", "job")).await.unwrap().worker_id;
    in_browser(async |browser| {
        browser.sign_in(&site, KEY).await;
        browser.goto(&site.at("/workers")).await;
        browser.reads("worker-1").await;
        browser.mark().await;
        browser.press("form[action$='/drain'] button").await;
        browser.element("dialog[open]").await;
        browser.press("dialog[open] button.primary").await;
        browser.reads("draining").await;
        assert!(browser.is_marked().await, "the page was loaded again");
        assert_eq!(site.api.worker(&worker).await.unwrap().status, "DRAINING");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_followed_while_it_grows() {
    let site = Site::start().await;
    let build = SubmitGitBuild {
        project_slug: "shop".into(),
        version: "1.0".into(),
        source_url: "https://git.example/shop.git".into(),
        reference: "main".into(),
        docker_image: "rust:1".into(),
        priority: None,
    };
    let build = site.api.submit_git_build(&build, None).await.unwrap().id;
    let worker = site.api.register(&worker("builds", "git")).await.unwrap().worker_id;
    let claim = Claim { claim_no: Some(1), start: true, ..Claim::default() };
    let lease = site.api.claim(&worker, &claim).await.unwrap().runs.pop().expect("the build waits").lease;
    let say = async |first: u64, count: u64| {
        let line = |number| NewLogLine { level: None, message: format!("line {number}"), timestamp: None };
        let logs = (first..first + count).map(line).collect();
        site.api.add_build_logs(&build, &lease, Some(first), logs).await.unwrap();
    };
    say(1, 100).await;
    in_browser(async |browser| {
        browser.sign_in(&site, KEY).await;
        browser.goto(&site.at(&format!("/runs/{build}"))).await;
        browser.reads("line 100").await;
        browser.mark().await;
        say(101, 1_000).await;
        browser.reads("line 1100").await;
        eventually("its end is in sight", async || is_at_end(browser).await).await;
        // Who scrolls up reads on where he is, and is told that there is more.
        browser.run("document.querySelector('#log-lines').scrollTop = 0").await;
        eventually("it follows no longer", async || browser.has("[data-log=follow][aria-pressed=false]").await).await;
        let seen = lines(browser).await;
        say(1_101, 50).await;
        browser.reads("50 new lines").await;
        assert_eq!(lines(browser).await, seen);
        browser.press("[data-log=news]").await;
        browser.reads("line 1150").await;
        // At a thousand lines a second it keeps up.
        for second in 0..3 {
            say(1_151 + second * 1_000, 1_000).await;
        }
        browser.reads("line 4150").await;
        let last = "return [...document.querySelectorAll('#log-lines li[id]')].pop().innerText";
        eventually("the last line is there", async || {
            let last = browser.run(last).await;
            last.as_str().is_some_and(|last| last.ends_with("line 4150"))
        })
        .await;
        assert!(browser.is_marked().await, "the page was loaded again");
    })
    .await;
}

async fn approved(ctx: Context, _: ()) -> Result<String, WorkflowError> {
    match ctx.signal::<String>("approved").timeout(Duration::from_secs(3_600)).await? {
        Some(by) => Ok(format!("approved by {by}")),
        None => Ok("nobody came".into()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_is_signalled_and_goes_on() {
    let site = Site::start().await;
    let (stop, stopped) = oneshot::channel::<()>();
    let client = Client::new(&site.server.url(), KEY).unwrap();
    let mut worker = Worker::builder(site.server.url(), "approvals").api_key(KEY).build().await.unwrap();
    worker.register("approval", approved);
    let working = tokio::spawn(worker.run_until(async move { drop(stopped.await) }));
    let run = client.start("approval", &()).queue("approvals").await.unwrap().run_id().to_owned();
    in_browser(async |browser| {
        browser.sign_in(&site, KEY).await;
        browser.goto(&site.at(&format!("/runs/{run}"))).await;
        browser.reads("unless a signal").await;
        browser.mark().await;
        browser.press("[data-what='#act-signal']").await;
        browser.type_into("#signal-name", "approved").await;
        browser.type_into("#signal-payload", "\"Grace\"").await;
        browser.press("#act-signal button.primary").await;
        browser.reads("approved by Grace").await;
        browser.reads("completed").await;
        assert!(browser.is_marked().await, "the page was loaded again");
    })
    .await;
    drop(stop);
    working.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keyboard_leads_everywhere() {
    let site = Site::start().await;
    for kind in ["one", "two"] {
        site.api.submit(&SubmitRun::new("work", kind)).await.unwrap();
    }
    in_browser(async |browser| {
        browser.sign_in(&site, KEY).await;
        browser.goto(&site.at("/runs")).await;
        browser.element("tbody tr[data-row]").await;
        let keys = async |keys: &str| browser.type_into("body", keys).await;
        keys("j").await;
        browser.element("tr.cursor").await;
        keys("j").await;
        let place = "return [...document.querySelectorAll('tbody tr[data-row]')].findIndex((row) => \
                     row.classList.contains('cursor'))";
        assert_eq!(browser.run(place).await, 1);
        browser.type_into("tr.cursor a", "k").await;
        assert_eq!(browser.run(place).await, 0);
        browser.type_into("tr.cursor a", "?").await;
        browser.element("#keys[open]").await;
        browser.type_into("#keys[open]", "\u{e00c}").await;
        eventually("the help is closed", async || !browser.has("#keys[open]").await).await;
        keys("/").await;
        browser.element("#palette[open]").await;
        browser.type_into("#palette input[type=search]", "Queues").await;
        let chosen = "return document.querySelector('#found [aria-selected=true]')?.innerText || ''";
        eventually("the page is found", async || {
            let chosen = browser.run(chosen).await;
            chosen.as_str().is_some_and(|text| text.contains("Queues"))
        })
        .await;
        browser.type_into("#palette input[type=search]", "\u{e007}").await;
        browser.arrives_at("/queues").await;
    })
    .await;
}
