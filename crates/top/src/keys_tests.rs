//! Keys, one after the other, and what they make of the screen.

use baton::ClientError;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::json;

use crate::app::{Action, App, Link, Mode, Mood, Pane, Subject, View};
use crate::ask::{Answer, Ask, Lane, Named};
use crate::filter::Tab;
use crate::fixture::{NOW, answer, give_runs, give_workers, id, normal, run, worker};
use crate::keys::Command;
use crate::rows;

/// Presses keys: each letter is a key, and `<Name>` is one as well.
fn press(app: &mut App, keys: &str) -> Command {
    let (mut last, mut rest) = (Command::Draw, keys);
    while let Some(letter) = rest.chars().next() {
        let (code, modifiers, length) = match rest.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
            Some((name, _)) => {
                let (code, modifiers) = match name {
                    "Enter" => (KeyCode::Enter, KeyModifiers::NONE),
                    "Esc" => (KeyCode::Esc, KeyModifiers::NONE),
                    "Tab" => (KeyCode::Tab, KeyModifiers::NONE),
                    "Backtab" => (KeyCode::BackTab, KeyModifiers::SHIFT),
                    "Back" => (KeyCode::Backspace, KeyModifiers::NONE),
                    "Down" => (KeyCode::Down, KeyModifiers::NONE),
                    "PgDn" => (KeyCode::PageDown, KeyModifiers::NONE),
                    name => {
                        (KeyCode::Char(name.strip_prefix("C-").unwrap().chars().next().unwrap()), KeyModifiers::CONTROL)
                    }
                };
                (code, modifiers, name.len() + 2)
            }
            None => (KeyCode::Char(letter), KeyModifiers::NONE, letter.len_utf8()),
        };
        last = app.key(KeyEvent::new(code, modifiers), NOW);
        rest = &rest[length..];
    }
    last
}

/// Where one is, in words.
fn place(app: &App) -> String {
    let details = match app.open() {
        Some(details) if details.pane == Pane::Log => " log",
        Some(_) => " details",
        None => "",
    };
    let mode = match &app.mode {
        Mode::Normal => "",
        Mode::Filter { .. } => " typing",
        Mode::Confirm { .. } => " asking",
        Mode::Help => " help",
    };
    format!("{} {}{details}{mode}", app.view.name(), app.place().row)
}

#[test]
fn keys_lead_where_the_help_says() {
    let table = [
        (View::Queues, "", "Queues 0"),
        (View::Queues, "2", "Runs 0"),
        (View::Queues, "<Tab><Tab>", "Workers 0"),
        (View::Queues, "<Backtab>", "Pools 0"),
        (View::Queues, "jj", "Queues 2"),
        (View::Queues, "jjjjjjjjj", "Queues 3"),
        (View::Queues, "<Down>kk", "Queues 0"),
        (View::Queues, "G", "Queues 3"),
        (View::Queues, "Gg", "Queues 0"),
        (View::Runs, "<PgDn>", "Runs 8"),
        (View::Runs, "j<Enter>", "Runs 1 details"),
        (View::Runs, "j<Enter><Esc>", "Runs 1"),
        (View::Runs, "jl", "Runs 1 log"),
        (View::Runs, "jl<Esc>", "Runs 1 details"),
        (View::Runs, "jl<Esc><Esc>", "Runs 1"),
        (View::Runs, "j<Enter>3", "Workers 0"),
        (View::Runs, "?", "Runs 0 help"),
        (View::Runs, "?j", "Runs 0"),
        (View::Runs, "/", "Runs 0 typing"),
        (View::Runs, "/q", "Runs 0 typing"),
        (View::Runs, "/x<Esc>", "Runs 0"),
        (View::Runs, "c", "Runs 0 asking"),
        (View::Runs, "cj", "Runs 0 asking"),
        (View::Runs, "cn", "Runs 0"),
        (View::Runs, "c<Esc>", "Runs 0"),
        (View::Pools, "l", "Pools 0"),
    ];
    for (view, keys, expected) in table {
        let mut app = normal(view);
        press(&mut app, keys);
        assert_eq!(place(&app), expected, "{keys}");
    }
    for (keys, command) in
        [("q", Command::Quit), ("<C-c>", Command::Quit), ("/ab<C-c>", Command::Quit), ("c<C-c>", Command::Quit)]
    {
        assert_eq!(press(&mut normal(View::Runs), keys), command, "{keys}");
    }
    assert_eq!(press(&mut normal(View::Runs), "<C-z>"), Command::Suspend);
    assert_eq!(press(&mut normal(View::Runs), "<C-l>"), Command::Redraw);
    assert_eq!(press(&mut normal(View::Runs), "R"), Command::Refresh);
}

#[test]
fn what_changes_something_asks_first_and_is_done_after_a_yes_alone() {
    let mail = Named { namespace: "default".into(), name: "mail".into() };
    let orders = Named { namespace: "default".into(), name: "orders".into() };
    let table = [
        (View::Runs, "c", Action::Cancel(id(9))),
        (View::Runs, "jjc", Action::Cancel(id(7))),
        (View::Runs, "Gr", Action::Retry(id(1))),
        (View::Workers, "jjjd", Action::Drain { id: id(1_001), name: "finch".into() }),
        (View::Queues, "jjp", Action::Pause(mail)),
        (View::Queues, "Gp", Action::Resume(orders)),
        (View::Runs, "jj<Enter>c", Action::Cancel(id(7))),
    ];
    for (view, keys, action) in table {
        let mut app = normal(view);
        app.drawn_at = NOW;
        assert_eq!(press(&mut app, keys), Command::Draw);
        let Mode::Confirm { action: asked, question } = app.mode.clone() else { panic!("{keys} asks nothing") };
        assert!(asked == action && question.ends_with(['?', '.', ')']), "{keys}: {asked:?} {question}");
        assert_eq!(press(&mut app, "<Enter>"), Command::Draw, "Enter is no yes");
        assert_eq!(press(&mut app, "y"), Command::Act(action));
        assert_eq!(app.mode, Mode::Normal);
    }
}

#[test]
fn what_makes_no_sense_or_is_not_allowed_is_refused_with_a_sentence() {
    let table = [
        (View::Runs, "admin", "Gc", "has ended"),
        (View::Runs, "admin", "r", "Only runs that have ended"),
        (View::Runs, "admin", "jjjjc", "already been told"),
        (View::Runs, "admin", "p", "Only queues"),
        (View::Queues, "admin", "c", "Only runs"),
        (View::Queues, "admin", "l", "Only runs have a log"),
        (View::Workers, "admin", "jjd", "drains already, with 1 runs"),
        (View::Workers, "admin", "Gd", "is offline"),
        (View::Runs, "read", "c", "This key may not cancel runs: that needs the scope submit, and it has read."),
        (View::Workers, "submit", "jjjd", "may not drain workers: that needs the scope admin"),
        (View::Queues, "read", "p", "may not pause queues"),
    ];
    for (view, scope, keys, said) in table {
        let mut app = normal(view);
        app.drawn_at = NOW;
        app.server.scopes = vec![scope.into()];
        assert_eq!(press(&mut app, keys), Command::Draw);
        assert_eq!(app.mode, Mode::Normal, "{keys}");
        let text = app.said.map(|said| said.text).unwrap_or_default();
        assert!(text.contains(said), "{keys}: {text}");
    }
}

#[test]
fn a_filter_is_typed_kept_and_taken_away() {
    let mut app = normal(View::Queues);
    press(&mut app, "/ma il<Back><Back><Back>");
    assert_eq!((app.filter_text(), rows::queues(&app).len()), ("ma", 1));
    press(&mut app, "<Enter>");
    assert_eq!(place(&app), "Queues 0");
    press(&mut app, "/x<C-u>bu<Enter>");
    assert_eq!(rows::queues(&app)[0].name, "builds");
    press(&mut app, "/zzz<Esc>");
    assert_eq!(app.filter_text(), "bu", "Esc brings back the filter before");
    press(&mut app, "<Esc>");
    assert_eq!((app.filter_text(), rows::queues(&app).len()), ("", 4));
    app.mode = Mode::Filter { before: String::new() };
    app.type_text("two\nlines\u{1b}[2J");
    assert_eq!(app.filter_text(), "two lines[2J");
    app.type_text(&"x".repeat(10_000));
    assert!(app.filter_text().len() <= 200);
}

#[test]
fn a_filter_that_cannot_be_read_stays_open_and_says_why() {
    let mut app = normal(View::Runs);
    press(&mut app, "/state:odd<Enter>");
    assert_eq!(place(&app), "Runs 0 typing");
    assert_eq!(app.said.unwrap().mood, Mood::Bad);
    assert!(app.facts.runs.is_some(), "what was shown stays");
}

#[test]
fn filters_and_states_of_runs_go_to_the_server() {
    let mut app = normal(View::Runs);
    press(&mut app, "/worker:finch type:digest<Enter>s");
    let wanted = app.wanted_runs().unwrap();
    assert_eq!(wanted.worker, Some(id(1_001)));
    assert_eq!((wanted.kind.as_deref(), wanted.states), (Some("digest"), Tab::Running.states()));
    assert!(app.facts.runs.is_none(), "other runs are wanted: those shown are not they");
    let late = Ask::Runs(normal(View::Runs).wanted_runs().unwrap());
    answer(
        &mut app,
        late,
        Answer::Runs(baton::proto::RunPage { runs: vec![run(1, "failed", json!({}))], next_cursor: None, total: None }),
    );
    assert!(app.facts.runs.is_none(), "an answer to what was wanted before is not shown");
}

#[test]
fn a_long_list_has_pages() {
    let mut app = normal(View::Runs);
    assert_eq!(press(&mut app, "jjn"), Command::Refresh);
    assert_eq!((app.wanted_runs().unwrap().cursor.as_deref(), app.place().row), (Some("next"), 0));
    give_runs(&mut app, vec![run(40, "pending", json!({}))], None);
    press(&mut app, "n");
    assert_eq!(app.said.clone().unwrap().text, "These are the last runs.");
    assert_eq!(press(&mut app, "N"), Command::Refresh);
    assert_eq!(app.wanted_runs().unwrap().cursor, None);
    assert_eq!(press(&mut app, "N"), Command::Draw);
}

#[test]
fn the_chosen_row_stays_chosen_when_others_come_and_go() {
    let mut app = normal(View::Runs);
    press(&mut app, "jj");
    let runs = |numbers: &[usize]| numbers.iter().map(|number| run(*number, "pending", json!({}))).collect();
    give_runs(&mut app, runs(&[11, 10, 9, 8, 7, 6]), None);
    assert_eq!((app.place().row, app.subject()), (4, Some(Subject::Run(id(7)))));
    give_runs(&mut app, runs(&[11, 10]), None);
    assert_eq!((app.place().row, app.subject()), (1, Some(Subject::Run(id(10)))), "it has gone: its neighbour");
    give_runs(&mut app, vec![], None);
    assert_eq!((app.place().row, app.subject()), (0, None));
    for keys in ["j", "k", "G", "<Enter>", "c", "r", "l", "n"] {
        press(&mut app, keys);
        assert!(app.open().is_none() && app.mode == Mode::Normal, "{keys}");
    }
}

#[test]
fn enter_on_details_shows_the_runs_of_a_queue_or_worker() {
    let mut app = normal(View::Queues);
    press(&mut app, "jj<Enter><Enter>");
    assert_eq!((app.view, app.filter_text()), (View::Runs, "queue:mail ns:default"));
    let mut app = normal(View::Workers);
    app.drawn_at = NOW;
    press(&mut app, "<Enter><Enter>");
    assert_eq!(app.wanted_runs().unwrap().worker, Some(id(1_002)));
}

#[test]
fn only_what_is_on_the_screen_is_asked_for() {
    let asks = |view, keys: &str| {
        let mut app = normal(view);
        app.facts.why.clear();
        press(&mut app, keys);
        app.wants(NOW)
    };
    let lane = Lane { namespace: "default".into(), queue: "mail".into(), kind: "digest".into(), key: None };
    let totals = [Ask::Numbers, Ask::Queues, Ask::Workers("ONLINE"), Ask::Workers("DRAINING")];
    let runs = Ask::Runs(normal(View::Runs).wanted_runs().unwrap());
    // One question for the lane, none for the run that is due later.
    let expected = [vec![runs, Ask::Why(id(9)), Ask::WhyLane(lane, id(9))], totals.to_vec()].concat();
    assert_eq!(asks(View::Runs, ""), expected);
    let run = [Ask::Run(id(7)), Ask::Why(id(7)), Ask::History(id(7)), Ask::Steps(id(7))];
    assert_eq!(asks(View::Runs, "jj<Enter>"), [run.to_vec(), totals.to_vec()].concat());
    assert_eq!(asks(View::Runs, "jjl")[..2], [Ask::Run(id(7)), Ask::Log(id(7), 0)]);
    assert_eq!(asks(View::Pools, "")[0], Ask::Pools);
    let types = |name: &str| Ask::Types(Named { namespace: "default".into(), name: name.into() });
    let queues = asks(View::Queues, "");
    assert!(queues.contains(&types("mail")) && queues.contains(&types("builds")) && !queues.contains(&types("orders")));
}

#[test]
fn a_screen_of_many_lanes_asks_about_a_few_at_a_time() {
    let mut app = normal(View::Runs);
    let runs = (0..100).map(|number| run(number, "pending", json!({"type": format!("type-{number}")}))).collect();
    give_runs(&mut app, runs, None);
    app.facts.why.clear();
    app.rows_shown = 50;
    let lanes = |app: &App| app.wants(NOW).into_iter().filter(|ask| matches!(ask, Ask::WhyLane(..))).count();
    assert_eq!(lanes(&app), 4);
}

#[test]
fn refusals_say_what_they_are_and_do_not_look_like_a_lost_connection() {
    let refused = |status, code: &str| ClientError::Refused {
        status,
        code: code.into(),
        message: format!("{code} in words"),
        field: None,
        retry_after: None,
    };
    let mut app = normal(View::Runs);
    app.take(Ask::Numbers, Err(refused(404, "not_found")), NOW);
    assert!(app.facts.no_numbers.is_some() && app.said.is_none());
    app.take(Ask::Pools, Err(refused(403, "forbidden")), NOW);
    assert_eq!((app.link.clone(), app.said.take().unwrap().text), (Link::Live, "forbidden in words".into()));
    app.take(Ask::Queues, Err(refused(403, "bad_credential")), NOW);
    assert_eq!(app.link, Link::Refused("bad_credential in words".into()));
    press(&mut app, "l");
    app.take(Ask::Log(id(9), 0), Err(refused(404, "not_found")), NOW);
    assert!(app.facts.about.no_log.is_some());
    assert!(!app.wants(NOW).iter().any(|ask| matches!(ask, Ask::Log(..))), "a log that is not there is asked for once");
    give_workers(&mut app, "ONLINE", vec![worker(1, "finch", "ONLINE", json!({}))]);
    assert_eq!(app.link, Link::Live);
}

#[test]
fn a_lost_connection_remembers_since_when() {
    let mut app = normal(View::Runs);
    let error = ClientError::Unreachable("nobody".into());
    app.lost(&error, NOW, 1_000);
    app.lost(&error, NOW + 1_000, 2_000);
    let Link::Lost { since, next, .. } = app.link else { panic!("{:?}", app.link) };
    assert_eq!((since, next), (NOW, NOW + 3_000));
}
