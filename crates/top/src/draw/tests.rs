use baton::proto::{ClaimPage, Explanation, RunPage};
use jiff::tz::TimeZone;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::json;

use super::*;
use crate::app::{Details, Pane, Subject};
use crate::ask::{Answer, Ask, Named};
use crate::fixture::{ABSURD, NOW, absurd, answer, app, at, empty, history, id, normal, queue, run, worker};
use crate::text::width;

const SIZES: [(u16, u16); 2] = [(80, 24), (200, 50)];
const THEME: Theme = Theme { has_color: true, is_ascii: false };

/// What the terminal shows, line by line.
fn frame(app: &mut App, (columns, height): (u16, u16), theme: Theme) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(columns, height)).unwrap();
    let look = Look { theme, zone: &TimeZone::UTC, now: NOW };
    terminal.draw(|frame| draw(app, frame.buffer_mut(), look)).unwrap();
    lines(terminal.backend().buffer())
}

fn shown(app: &mut App, size: (u16, u16)) -> String {
    frame(app, size, THEME).join("\n")
}

fn open(app: &mut App, subject: Subject, pane: Pane) {
    app.details = vec![Details { subject, scroll: 0, pane }];
}

#[test]
fn every_list_and_everything_open_fits_every_screen_whatever_the_data() {
    let sizes = [(80, 24), (200, 50), (40, 10), (41, 11), (60, 12), (300, 10), (1, 1), (39, 9)];
    for size in sizes {
        for view in View::ALL {
            for mut app in [app(view), empty(view), normal(view), absurd(view)] {
                for mode in [Mode::Normal, Mode::Help, Mode::Filter { before: String::new() }] {
                    app.mode = mode;
                    frame(&mut app, size, THEME);
                }
                app.mode = Mode::Normal;
                app.link = Link::Lost { since: NOW - 5_000, next: NOW + 3_000, why: ABSURD.repeat(5) };
                app.filters[view as usize] = String::from("x");
                frame(&mut app, size, Theme { has_color: false, is_ascii: true });
                let pool = Named { namespace: "default".into(), name: ABSURD.repeat(12) };
                let about = [
                    (Subject::Run(id(2)), Pane::Facts),
                    (Subject::Run(id(2)), Pane::Log),
                    (Subject::Worker(id(1_001)), Pane::Facts),
                    (Subject::Queue(pool.clone()), Pane::Facts),
                    (Subject::Pool(pool), Pane::Facts),
                ];
                for (subject, pane) in about {
                    open(&mut app, subject, pane);
                    frame(&mut app, size, THEME);
                }
            }
        }
    }
}

#[test]
fn nothing_that_steers_a_terminal_is_drawn_and_no_line_is_wider_than_the_screen() {
    for size in SIZES {
        for view in View::ALL {
            let mut app = absurd(view);
            let log = vec![(1, ABSURD.repeat(30)), (2, String::new())];
            let details = [
                None,
                Some((Subject::Run(id(2)), Pane::Facts)),
                Some((Subject::Worker(id(1_001)), Pane::Facts)),
                Some((Subject::Run(id(2)), Pane::Log)),
            ];
            for details in details {
                if let Some((subject, pane)) = details {
                    open(&mut app, subject, pane);
                    app.facts.about.log = log.clone();
                }
                for line in frame(&mut app, size, THEME) {
                    assert!(!line.contains(|c: char| c.is_control()), "{line:?}");
                    assert!(!line.contains(['\u{202e}', '\u{2066}', '\u{200d}', '\u{9b}']), "{line:?}");
                    assert_eq!(width(&line), usize::from(size.0), "{line:?}");
                }
            }
        }
    }
}

#[test]
fn columns_stay_where_they_are_below_names_of_any_width() {
    let mut app = app(View::Queues);
    let queues = ["plain", "漢字漢字", "e\u{301}te\u{301}", "👨\u{200d}👩\u{200d}👧", "שלום"];
    answer(&mut app, Ask::Queues, Answer::Queues(queues.map(|name| queue(name, 7, json!({}))).to_vec()));
    let lines = frame(&mut app, (80, 24), THEME);
    let title = lines[3].find("WAITING").unwrap() + "WAITING".len();
    for line in &lines[4..9] {
        let before = line.find(" 7 ").unwrap_or_else(|| panic!("{line}")) + 2;
        assert_eq!(width(&line[..before]), title, "{line}");
    }
}

#[test]
fn queues_say_what_waits_and_what_nobody_serves() {
    let text = shown(&mut normal(View::Queues), (80, 24));
    for words in
        ["mail", "412", "paused", "waiting 414", "● live", "1 Queues", "newsletter", "p pause/resume", "✗ stuck"]
    {
        assert!(text.contains(words), "{words} is missing in\n{text}");
    }
    let wide = shown(&mut normal(View::Queues), (200, 50));
    for words in ["50/s", "1 a key", "LATER", "ASLEEP"] {
        assert!(wide.contains(words), "{words} is missing in\n{wide}");
    }
}

#[test]
fn each_run_says_what_matters_in_its_state() {
    let text = shown(&mut normal(View::Runs), (200, 50));
    let rows = [
        "○ waiting     digest",
        "no worker serves it",
        "in 42 s, after: connection reset",
        "finch e2 ▰▰▰▰▱ 8.0 s",
        "lease over for 1.5 s",
        "◌ cancelling",
        "until in 1 min 30 s",
        "in 0.4 s",
        "error: no such address ",
        "⊘ cancelled",
        "order-204",
        "…000009",
        "No worker that is online serves the queue mail and the type digest.",
        "1/9+",
    ];
    for words in rows {
        assert!(text.contains(words), "{words} is missing in\n{text}");
    }
    let narrow = shown(&mut normal(View::Runs), (80, 24));
    for words in ["no worker serves it", "…000009", "in 42 s"] {
        assert!(narrow.contains(words), "{words} is missing in\n{narrow}");
    }
}

#[test]
fn workers_in_trouble_come_first() {
    let lines = frame(&mut normal(View::Workers), (80, 24), THEME);
    let order: Vec<&str> = lines[4..9].iter().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(order, ["otter", "heron", "lynx", "finch", "wren"]);
    let text = lines.join("\n");
    for words in ["✗ silent", "‖ unfit", "◌ draining", "● online", "○ offline", "seen 10 min ago", "2/2"] {
        assert!(text.contains(words), "{words} is missing in\n{text}");
    }
}

#[test]
fn a_pool_says_why_its_claims_wait() {
    let text = shown(&mut normal(View::Pools), (80, 24));
    for words in ["linux", "1 machine is being made", "CLAIMS"] {
        assert!(text.contains(words), "{words} is missing in\n{text}");
    }
}

#[test]
fn an_empty_server_teaches_the_first_commands() {
    for (view, words) in [(View::Queues, "run submit"), (View::Workers, "worker run"), (View::Pools, "pool create")] {
        let text = shown(&mut empty(view), (80, 24));
        assert!(text.contains(words) && text.contains("http://127.0.0.1:7400"), "{text}");
    }
    assert!(shown(&mut app(View::Runs), (80, 24)).contains("Asking the server"));
}

#[test]
fn a_run_that_was_handed_over_shows_it() {
    let mut app = normal(View::Runs);
    open(&mut app, Subject::Run(id(7)), Pane::Facts);
    let run = run(
        7,
        "running",
        json!({"worker_id": id(1_001), "epoch": 2, "input": {"to": "ada"}, "claimed_at": at(-41_000)}),
    );
    answer(&mut app, Ask::Run(id(7)), Answer::Run(Box::new(run)));
    answer(&mut app, Ask::History(id(7)), Answer::History(history()));
    let why: Explanation =
        serde_json::from_value(json!({"id": id(7), "state": "running", "summary": "finch holds it.", "reasons": []}))
            .unwrap();
    answer(&mut app, Ask::Why(id(7)), Answer::Why(why));
    let text = shown(&mut app, (80, 36));
    let words = [
        "finch holds it.",
        "handed over e1 → e2",
        "worker_lost",
        "\"to\": \"ada\"",
        "lease ended",
        "11:59:00",
        "60 s ago",
    ];
    for words in words.into_iter().take(6) {
        assert!(text.contains(words), "{words} is missing in\n{text}");
    }
    // Not for another run.
    answer(&mut app, Ask::History(id(8)), Answer::History(baton::proto::History { events: vec![] }));
    assert!(shown(&mut app, (80, 36)).contains("handed over"));
}

#[test]
fn details_of_a_worker_and_a_pool_list_what_they_have() {
    let mut app = normal(View::Workers);
    open(&mut app, Subject::Worker(id(1_001)), Pane::Facts);
    let page = RunPage { runs: vec![run(7, "running", json!({}))], next_cursor: None, total: None };
    answer(
        &mut app,
        Ask::Worker(id(1_001)),
        Answer::Worker(Box::new(worker(1, "finch", "ONLINE", json!({"pid": 17})))),
    );
    answer(&mut app, Ask::HeldBy(id(1_001)), Answer::HeldBy(page));
    let text = shown(&mut app, (80, 36));
    assert!(text.contains("process 17") && text.contains("Holds 1 run") && text.contains("…000007"), "{text}");
    let pool = Named { namespace: "default".into(), name: "linux".into() };
    app.show(View::Pools);
    open(&mut app, Subject::Pool(pool.clone()), Pane::Facts);
    let claims: ClaimPage = serde_json::from_value(json!({"claims": [{
        "run_id": "ci-17", "pool": "linux", "namespace": "default", "state": "waiting", "count": 4, "live": 1, "priority": 5,
        "opened_at": at(-9_000), "deadline": at(30_000),
    }]})).unwrap();
    answer(&mut app, Ask::Claims(pool), Answer::Claims(claims));
    let text = shown(&mut app, (80, 36));
    assert!(text.contains("ci-17 has 1 of 4  waits 9 s  gives up in 30 s"), "{text}");
}

#[test]
fn a_log_follows_its_end_until_one_scrolls_up() {
    let mut app = normal(View::Runs);
    open(&mut app, Subject::Run(id(7)), Pane::Log);
    let lines = (1..=100).map(|number| (number, format!("\u{1b}[32mline {number}\u{1b}[0m"))).collect();
    answer(&mut app, Ask::Log(id(7), 0), Answer::Log(lines));
    let text = shown(&mut app, (80, 24));
    assert!(text.contains("100 line 100") && text.contains("following") && !text.contains("[32m"), "{text}");
    let key = |code| crossterm::event::KeyEvent::new(code, crossterm::event::KeyModifiers::NONE);
    app.key(key(crossterm::event::KeyCode::PageUp), NOW);
    answer(&mut app, Ask::Log(id(7), 100), Answer::Log(vec![(101, "line 101".into())]));
    let text = shown(&mut app, (80, 24));
    assert!(!text.contains("line 101") && !text.contains("following"), "{text}");
    app.key(key(crossterm::event::KeyCode::End), NOW);
    assert!(shown(&mut app, (80, 24)).contains("line 101"));
}

#[test]
fn a_lost_connection_says_since_when_and_when_the_next_try_comes() {
    let mut app = normal(View::Queues);
    app.link = Link::Lost { since: NOW - 5_000, next: NOW + 3_000, why: "cannot reach the server: refused".into() };
    let text = shown(&mut app, (80, 24));
    assert!(text.contains("no connection since 11:59:55, next try in 3.0 s"), "{text}");
    assert!(text.contains("cannot reach the server: refused"), "{text}");
}

#[test]
fn letters_alone_are_enough_for_old_terminals() {
    let theme = Theme { has_color: false, is_ascii: true };
    for view in View::ALL {
        let text = frame(&mut normal(view), (80, 24), theme).join("\n");
        assert!(text.is_ascii(), "{text}");
    }
}

#[test]
fn one_frame_as_text_has_all_rows_and_no_keys() {
    let look = Look { theme: Theme { has_color: false, is_ascii: false }, zone: &TimeZone::UTC, now: NOW };
    let text = plain(&mut normal(View::Runs), 80, look);
    assert!(text.contains("…000009") && text.contains("…000001"), "{text}");
    assert!(
        !text.contains("q quit") && text.lines().all(|line| width(line) <= 80 && line == line.trim_end()),
        "{text}"
    );
}
