//! `baton top` on a real terminal, against a real server.

use std::time::Duration;

use baton::State;
use baton::proto::{CreateKey, CreatedKey};
use baton_testkit::Process;

use crate::on_both_stores;
use crate::site::{API_KEY, BATON, KIND, Leases, QUEUE, Site, Store, job, submit};
use crate::terminal::Terminal;
use crate::wait::eventually;

const SIZE: (u16, u16) = (80, 24);

fn top(site: &Site, arguments: &[&str], size: (u16, u16)) -> Terminal {
    top_as(site, API_KEY, arguments, size)
}

fn top_as(site: &Site, key: &str, arguments: &[&str], size: (u16, u16)) -> Terminal {
    let url = site.server.url();
    let environment = [("BATON_URL", url.as_str()), ("BATON_API_KEY", key)];
    Terminal::start(BATON, &[&["top"][..], arguments].concat(), &environment, size)
}

/// Whether what the program began with is back: the other screen, and how the terminal is set.
fn is_restored(terminal: &Terminal, before: &str) -> bool {
    let screen = terminal.screen();
    !screen.alternate_screen() && !screen.hide_cursor() && !screen.bracketed_paste() && terminal.settings() == before
}

async fn a_run_appears_is_cancelled_and_the_terminal_is_given_back(store: Store) {
    let site = Site::start(store, Leases::LONG).await;
    let mut terminal = top(&site, &[], SIZE);
    let before = terminal.settings();
    terminal.shows("Nothing has been submitted yet").await;
    assert!(terminal.settings() != before && terminal.screen().alternate_screen());
    let runs = submit(&site.client(), vec![job()]).await;
    terminal.shows(QUEUE).await;
    terminal.shows(&format!("the type {KIND} on this queue")).await;
    terminal.types("2");
    terminal.shows("no worker serves it").await;
    terminal.types("c");
    terminal.shows("Cancel the run").await;
    terminal.types("\r");
    terminal.types("y");
    terminal.shows("is cancelled.").await;
    terminal.shows("⊘ cancelled").await;
    assert_eq!(site.client().run(&runs[0]).await.unwrap().state, State::Cancelled);
    terminal.types("r");
    terminal.shows("as a new run? y/n").await;
    terminal.types("y");
    terminal.shows("was submitted again").await;
    terminal.types("q");
    assert_eq!(terminal.ended().await, 0);
    terminal.until("the terminal is given back", |screen| !screen.alternate_screen()).await;
    assert!(is_restored(&terminal, &before), "{before}\n{}", terminal.settings());
}

async fn a_run_is_followed_from_worker_to_worker(store: Store) {
    let site = Site::start(store, Leases::SHORT).await;
    let gate = site.gate();
    let first = site.worker(1, &gate.command());
    submit(&site.client(), vec![job()]).await;
    let mut terminal = top(&site, &["runs"], (120, 30));
    terminal.shows("▶ running").await;
    terminal.shows(" e1 ▰").await;
    terminal.types("\r");
    terminal.shows("held by").await;
    terminal.shows("History").await;
    drop(first);
    let _second = site.worker(1, &gate.command());
    terminal.shows("handed over e1 → e2").await;
    gate.open();
    terminal.shows("✓ completed").await;
    terminal.types("l");
    terminal.shows("only builds have one").await;
}

on_both_stores!(a_run_appears_is_cancelled_and_the_terminal_is_given_back, a_run_is_followed_from_worker_to_worker,);

#[tokio::test(flavor = "multi_thread")]
async fn signals_give_the_terminal_back() {
    let site = Site::start(Store::Sqlite, Leases::LONG).await;
    for signal in ["-TERM", "-HUP", "-INT"] {
        let mut terminal = top(&site, &[], SIZE);
        let before = terminal.settings();
        terminal.shows("● live").await;
        let kill = Process::spawn("kill", [signal, terminal.pid().to_string().as_str()], [("LANG", "C")]);
        assert_eq!(terminal.ended().await, 0, "{signal}");
        drop(kill);
        terminal.until("the terminal is given back", |screen| !screen.alternate_screen()).await;
        assert!(is_restored(&terminal, &before), "{signal}");
    }
    let mut terminal = top(&site, &[], SIZE);
    terminal.shows("● live").await;
    terminal.types("\u{3}");
    assert_eq!(terminal.ended().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_can_be_suspended_and_continued() {
    let site = Site::start(Store::Sqlite, Leases::LONG).await;
    let url = site.server.url();
    let environment = [("BATON_URL", url.as_str()), ("BATON_API_KEY", API_KEY), ("PS1", "$ ")];
    let mut shell = Terminal::start("bash", &["--norc", "--noprofile", "-i"], &environment, SIZE);
    shell.shows("$ ").await;
    shell.types(&format!("{BATON} top\r"));
    shell.shows("● live").await;
    shell.types("\u{1a}");
    shell
        .until("the shell is back", |screen| !screen.alternate_screen() && screen.contents().contains("Stopped"))
        .await;
    shell.types("echo still $((40 + 2))\r");
    shell.shows("still 42").await;
    shell.types("fg\r");
    shell.until("it goes on", |screen| screen.alternate_screen() && screen.contents().contains("● live")).await;
    shell.types("2");
    shell.shows("q quit").await;
    shell.types("q");
    shell.until("the shell is back", |screen| !screen.alternate_screen()).await;
    shell.types("echo typed\r");
    shell.shows("typed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_goes_away_is_waited_for() {
    let mut site = Site::start(Store::Sqlite, Leases::LONG).await;
    let mut terminal = top(&site, &[], (120, 24));
    terminal.shows("● live").await;
    site.server.kill9();
    let text = terminal.shows("no connection since").await;
    assert!(text.contains("next try in"), "{text}");
    site.server.restart().await;
    terminal.shows("● live").await;
    terminal.resize((100, 30));
    terminal.types("?");
    terminal.shows("What changes something asks first.").await;
    terminal.resize((10, 5));
    terminal.shows("At least").await;
    terminal.resize(SIZE);
    terminal.shows("● live").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_may_only_read_is_told_so() {
    let site = Site::start(Store::Sqlite, Leases::LONG).await;
    let wanted = CreateKey { name: "reader".into(), scopes: vec!["read".into()], namespace: None, expires_in_ms: None };
    let CreatedKey { key, .. } = site.client().create_key(&wanted).await.unwrap();
    let runs = submit(&site.client(), vec![job()]).await;
    let mut terminal = top_as(&site, &key, &["runs"], SIZE);
    terminal.shows("○ waiting").await;
    terminal.types("c");
    terminal.shows("This key may not cancel runs").await;
    assert_eq!(site.client().run(&runs[0]).await.unwrap().state, State::Pending);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_others_cannot_steer_the_terminal() {
    let site = Site::start(Store::Sqlite, Leases::LONG).await;
    let run = baton::proto::SubmitRun { key: Some("\u{1b}]0;owned\u{7}\u{1b}[2J漢字".into()), ..job() };
    // A server that refuses such a key is as good.
    let Ok(_) = site.client().submit(&run).await else { return };
    let mut terminal = top(&site, &["runs"], (120, 24));
    terminal.shows("␛]0;owned␇␛[2J漢字").await;
    terminal.shows("1 Queues").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scripts_get_one_frame_or_are_told_what_to_do() {
    let site = Site::start(Store::Sqlite, Leases::LONG).await;
    submit(&site.client(), vec![job(), job()]).await;
    let url = site.server.url();
    let baton = async |arguments: &[&str], key: &str| {
        let mut process = Process::spawn(BATON, arguments, [("BATON_URL", url.as_str()), ("BATON_API_KEY", key)]);
        let status = process.wait(Duration::from_secs(60)).await;
        (status.code(), process.output())
    };
    let (code, text) = baton(&["top", "--once", "--width", "80"], API_KEY).await;
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains(QUEUE) && text.contains("✗ stuck") && !text.contains('\u{1b}'), "{text}");
    let (code, text) = baton(&["top", "runs", "--once", "--filter", "state:failed"], API_KEY).await;
    assert!(code == Some(0) && text.contains("Nothing fits the filter"), "{text}");
    let table: [(&[&str], &str, i32, &str); 4] = [
        (&["top"], API_KEY, 2, "baton top --once"),
        (&["top", "runs", "--once", "--filter", "state:odd"], API_KEY, 2, "state: takes waiting"),
        (&["top", "--once"], "bk_wrong", 4, "--api-key"),
        (&["top", "--once", "--url", "http://127.0.0.1:9"], API_KEY, 5, "Is it running?"),
    ];
    for (arguments, key, expected, words) in table {
        let (code, text) = baton(arguments, key).await;
        assert!(code == Some(expected) && text.contains(words), "{arguments:?} ended with {code:?}:\n{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_dashboard_asks_for_little() {
    let site = Site::start(Store::Sqlite, Leases::LONG).await;
    submit(&site.client(), (0..100).map(|_| job()).collect()).await;
    let calls = async || {
        let metrics = site.client().metrics().await.unwrap();
        let counts = metrics.lines().filter(|line| line.starts_with("baton_http_request_duration_seconds_count{"));
        counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>()
    };
    let mut terminal = top(&site, &["runs"], (200, 50));
    terminal.shows("no worker serves it").await;
    let (begun, before) = (std::time::Instant::now(), calls().await);
    let is_over = || async move { (begun.elapsed() > Duration::from_secs(10)).then_some(()) };
    eventually("ten seconds have passed", is_over).await;
    let rate = (calls().await - before) / begun.elapsed().as_secs_f64();
    println!("{rate:.1} requests a second");
    assert!(rate < 4.0, "{rate} requests a second");
}
