//! Logs: numbers without gaps, whoever writes and however much.

use std::sync::Arc;

use baton_core::State;
use baton_store::{LOG_PAGE_BYTES_MAX, LogAnswer, LogEnd, LogLine};

use crate::builds_rig::{ROOM, git_build, lines};
use crate::rig::{Rig, START, contract, done, lease, lease_of, run};

contract!(
    lines_are_numbered_from_one_and_read_in_pages,
    any_text_comes_back_as_it_was,
    a_line_bears_the_time_of_its_sender_or_its_arrival,
    only_the_live_lease_writes,
    lines_that_come_again_are_kept_once,
    a_full_log_knows_what_it_dropped,
    lines_that_come_again_from_two_servers_at_once_are_kept_once,
    a_log_without_a_lease_grows_also_after_the_end,
    what_is_no_build_has_no_log,
    a_full_log_says_so_once,
    two_writers_leave_no_gaps,
    a_line_is_kept_before_the_end_of_its_lease_or_not_at_all,
    half_a_million_lines_are_one_batch,
    a_page_of_large_lines_is_short,
    logs_survive_a_restart,
);

async fn lines_are_numbered_from_one_and_read_in_pages(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held_build(run(lane)).await;
    assert_eq!(rig.store.logs(held.run, 0, 10).await.unwrap(), []);
    assert_eq!(rig.say(held.run, Some(held), &[]).await, LogAnswer::Kept(0));
    assert_eq!(rig.say(held.run, Some(held), &["a", "b", "c"]).await, LogAnswer::Kept(3));
    assert_eq!(rig.say(held.run, Some(held), &["d"]).await, LogAnswer::Kept(4));
    assert_eq!(rig.say(held.run, Some(held), &["e", "f"]).await, LogAnswer::Kept(6));
    let expected: Vec<(u64, String)> = (1..).zip("abcdef".chars().map(String::from)).collect();
    for page in [1, 2, 3, 4, 5, 6, 100] {
        let log = rig.log(held.run, page).await;
        let log: Vec<(u64, String)> = log.into_iter().map(|line| (line.number, line.message)).collect();
        assert_eq!(log, expected, "pages of {page}");
    }
    let middle = rig.store.logs(held.run, 2, 3).await.unwrap();
    assert_eq!(middle.iter().map(|line| line.number).collect::<Vec<_>>(), [3, 4, 5]);
    for (after, limit) in [(6, 10), (u64::MAX, 10), (u64::MAX, usize::MAX), (0, 0)] {
        assert_eq!(rig.store.logs(held.run, after, limit).await.unwrap(), [], "after {after}, {limit} lines");
    }
    assert_eq!(rig.store.logs(held.run, 0, usize::MAX).await.unwrap().len(), 6);
    // Each takes its level, its letter and one more.
    let end = LogEnd { lines: 6, bytes: 36, is_full: false };
    assert_eq!(rig.store.log_end(held.run).await.unwrap(), end);
}

async fn any_text_comes_back_as_it_was(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held_build(run(lane)).await;
    let texts = [
        "",
        "nul \0 inside",
        "\0",
        "a\nb\r\n\tc",
        "\u{1b}[31mred\u{1b}[0m",
        "\"\\u0000\" 'x' $1 ?1",
        "ü😀\u{fffd}\u{2400}",
    ];
    rig.say(held.run, Some(held), &texts).await;
    let level = LogLine { level: "odd\0level".into(), message: "x".into(), at: None };
    rig.store.add_logs(held.run, Some(held), None, vec![level], ROOM).await.unwrap();
    let log = rig.log(held.run, 100).await;
    assert_eq!(log.iter().take(texts.len()).map(|line| line.message.as_str()).collect::<Vec<_>>(), texts);
    assert_eq!(log.last().unwrap().level, "odd\0level");
}

async fn a_line_bears_the_time_of_its_sender_or_its_arrival(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held_build(run(lane)).await;
    rig.clock.advance(50);
    let said = |at| LogLine { level: "warn".into(), message: "m".into(), at };
    rig.store
        .add_logs(held.run, Some(held), None, vec![said(Some(7)), said(None), said(Some(-1))], ROOM)
        .await
        .unwrap();
    rig.clock.advance(50);
    let log = rig.log(held.run, 10).await;
    assert_eq!(log.iter().map(|line| line.at).collect::<Vec<_>>(), [7, START + 50, -1]);
    assert!(log.iter().all(|line| line.arrived_at == START + 50));
    assert!(log.iter().all(|line| line.level == "warn"));
}

async fn only_the_live_lease_writes(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, first) = rig.held_build(run(lane)).await;
    let (_, other) = rig.held_build(run(lane)).await;
    assert_eq!(rig.say(first.run, Some(first), &["one"]).await, LogAnswer::Kept(1));
    for stale in [lease_of(first.run, 0), lease_of(first.run, 2), other] {
        assert_eq!(rig.say(first.run, Some(stale), &["no"]).await, LogAnswer::LeaseLost);
        assert_eq!(rig.say(first.run, Some(stale), &[]).await, LogAnswer::LeaseLost);
    }
    rig.give_back(first).await;
    assert_eq!(rig.say(first.run, Some(first), &["no"]).await, LogAnswer::LeaseLost);
    let second = lease(&rig.claim(worker, lane, 1).await[0]);
    assert_eq!(rig.say(first.run, Some(first), &["no"]).await, LogAnswer::LeaseLost);
    assert_eq!(rig.say(first.run, Some(second), &["two"]).await, LogAnswer::Kept(2));
    rig.complete(second).await;
    assert_eq!(rig.say(first.run, Some(second), &["no"]).await, LogAnswer::LeaseLost);
    let log = rig.log(first.run, 10).await;
    assert_eq!(log.iter().map(|line| line.message.as_str()).collect::<Vec<_>>(), ["one", "two"]);
}

async fn lines_that_come_again_are_kept_once(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (worker, held) = rig.held_build(run(lane)).await;
    let add = async |lease, first, messages: &[&str]| {
        rig.store.add_logs(held.run, Some(lease), first, lines(messages), ROOM).await.unwrap()
    };
    rig.say(held.run, None, &["the server's own"]).await;
    assert_eq!(add(held, Some(1), &["a", "b"]).await, LogAnswer::Kept(3));
    assert_eq!(add(held, Some(1), &["a", "b"]).await, LogAnswer::Kept(3), "its answer was lost");
    assert_eq!(add(held, Some(2), &["b", "c"]).await, LogAnswer::Kept(4), "half of it is new");
    rig.say(held.run, None, &["in between"]).await;
    assert_eq!(add(held, None, &["not counted"]).await, LogAnswer::Kept(6));
    assert_eq!(add(held, Some(5), &["e"]).await, LogAnswer::Ahead(3), "the fourth is missing");
    assert_eq!(add(held, Some(u64::MAX), &["z"]).await, LogAnswer::Ahead(3));
    assert_eq!(add(held, Some(4), &["d"]).await, LogAnswer::Kept(7));
    assert_eq!(add(held, Some(1), &["a"]).await, LogAnswer::Kept(7));
    let large = "x".repeat(700_000);
    for _ in 0..2 {
        // More than goes in one statement.
        assert_eq!(add(held, Some(5), &[&large, &large]).await, LogAnswer::Kept(9));
    }
    let rig = rig.reopen().await;
    let add = async |lease, first, messages: &[&str]| {
        rig.store.add_logs(held.run, Some(lease), first, lines(messages), ROOM).await.unwrap()
    };
    assert_eq!(add(held, Some(6), &[&large, "f"]).await, LogAnswer::Kept(10));
    rig.give_back(held).await;
    let second = lease(&rig.claim(worker, lane, 1).await[0]);
    assert_eq!(add(held, Some(1), &["a"]).await, LogAnswer::LeaseLost);
    assert_eq!(add(second, Some(1), &["a"]).await, LogAnswer::Kept(11), "every lease counts from one");
    assert_eq!(add(second, Some(1), &["a"]).await, LogAnswer::Kept(11));
    let log = rig.log(held.run, 100).await;
    let log: Vec<&str> = log.iter().map(|line| line.message.as_str()).collect();
    let expected = ["the server's own", "a", "b", "c", "in between", "not counted", "d", &large, &large, "f", "a"];
    assert!(log == expected, "{:?}", log.iter().map(|line| &line[..line.len().min(20)]).collect::<Vec<_>>());
}

async fn a_full_log_knows_what_it_dropped(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held_build(run(lane)).await;
    let add = async |first, messages: &[&str]| {
        rig.store.add_logs(held.run, Some(held), Some(first), lines(messages), 25).await.unwrap()
    };
    assert_eq!(add(1, &["11111", "22222", "33333", "44444"]).await, LogAnswer::Full(3));
    assert_eq!(add(1, &["11111", "22222", "33333", "44444"]).await, LogAnswer::Full(3));
    assert_eq!(add(5, &["55555"]).await, LogAnswer::Full(3), "what was dropped is not missing");
    assert_eq!(add(6, &["66666"]).await, LogAnswer::Full(3));
    assert_eq!(rig.log(held.run, 10).await.len(), 3);
}

async fn lines_that_come_again_from_two_servers_at_once_are_kept_once(rig: Rig) {
    const BATCHES: u64 = 50;
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held_build(run(lane)).await;
    let mut writers = Vec::new();
    for store in rig.servers(2).await {
        writers.push(tokio::spawn(async move {
            for batch in 0..BATCHES {
                let said = lines(&[&format!("{batch} 0"), &format!("{batch} 1")]);
                let answer = store.add_logs(held.run, Some(held), Some(2 * batch + 1), said, ROOM).await.unwrap();
                assert!(matches!(answer, LogAnswer::Kept(_)), "{answer:?}");
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let log: Vec<String> = rig.log(held.run, 1_000).await.into_iter().map(|line| line.message).collect();
    let expected: Vec<String> = (0..BATCHES).flat_map(|batch| [format!("{batch} 0"), format!("{batch} 1")]).collect();
    assert_eq!(log, expected);
}

async fn a_log_without_a_lease_grows_also_after_the_end(rig: Rig) {
    let lane = rig.lane("ios").await;
    let build = rig.submit_build(run(lane), git_build("default")).await.run;
    assert_eq!(rig.say(build, None, &["taken in"]).await, LogAnswer::Kept(1));
    rig.cancel(build, 0).await;
    assert_eq!(rig.say(build, None, &["cancelled"]).await, LogAnswer::Kept(2));
}

async fn what_is_no_build_has_no_log(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, plain) = rig.held(run(lane)).await;
    assert_eq!(rig.say(plain.run, Some(plain), &["no"]).await, LogAnswer::Unknown);
    assert_eq!(rig.say(plain.run, None, &["no"]).await, LogAnswer::Unknown);
    let nobody = lease_of(baton_core::RunId::new(1, 1, 1), 1);
    assert_eq!(rig.say(nobody.run, Some(nobody), &["no"]).await, LogAnswer::Unknown);
    assert_eq!(rig.store.logs(plain.run, 0, 10).await.unwrap(), []);
}

async fn a_full_log_says_so_once(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held_build(run(lane)).await;
    // Each line takes ten bytes: its level, its five letters, and one more.
    let add =
        async |messages: &[&str]| rig.store.add_logs(held.run, Some(held), None, lines(messages), 35).await.unwrap();
    assert_eq!(add(&["11111", "22222"]).await, LogAnswer::Kept(2));
    assert_eq!(add(&["33333", "44444", "55555"]).await, LogAnswer::Full(4));
    assert_eq!(add(&["66666"]).await, LogAnswer::Full(4));
    assert_eq!(add(&[]).await, LogAnswer::Full(4));
    let end = rig.store.log_end(held.run).await.unwrap();
    assert!(end.is_full && end.lines == 4, "{end:?}");
    let log = rig.log(held.run, 10).await;
    assert_eq!(log.iter().map(|line| line.number).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(log[2].message, "33333");
    assert!(log[3].message.contains("full") && log[3].message.contains("35 bytes"), "{}", log[3].message);
    // More room does not open it again, or there would be a hole in the middle.
    assert_eq!(rig.say(held.run, Some(held), &["77777"]).await, LogAnswer::Full(4));
    assert_eq!(rig.say(held.run, Some(lease_of(held.run, 9)), &["no"]).await, LogAnswer::LeaseLost);
}

async fn two_writers_leave_no_gaps(rig: Rig) {
    const BATCHES: usize = 40;
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held_build(run(lane)).await;
    let mut writers = Vec::new();
    for (writer, store) in rig.servers(2).await.into_iter().cycle().take(4).enumerate() {
        writers.push(tokio::spawn(async move {
            for batch in 0..BATCHES {
                // Now and then one that takes the longer way.
                let long = if batch % 10 == 9 { "x".repeat(700_000) } else { String::new() };
                let said = [format!("{writer} {batch} 0 {long}"), format!("{writer} {batch} 1 {long}")];
                let said: Vec<&str> = said.iter().map(String::as_str).collect();
                let answer = store.add_logs(held.run, Some(held), None, lines(&said), ROOM).await.unwrap();
                assert!(matches!(answer, LogAnswer::Kept(_)), "{answer:?}");
            }
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let log = rig.log(held.run, 50).await;
    let numbers: Vec<u64> = log.iter().map(|line| line.number).collect();
    assert_eq!(numbers, (1..=(4 * 2 * BATCHES) as u64).collect::<Vec<_>>());
    for writer in 0..4 {
        let own: Vec<Vec<usize>> = log
            .iter()
            .map(|line| line.message.split(' ').take(3).map(|word| word.parse().unwrap()).collect::<Vec<usize>>())
            .filter(|words| words[0] == writer)
            .collect();
        assert!(own.is_sorted(), "the lines of one writer stay in order");
        assert_eq!(own.len(), 2 * BATCHES);
    }
}

async fn a_line_is_kept_before_the_end_of_its_lease_or_not_at_all(rig: Rig) {
    let lane = rig.lane("ios").await;
    let servers = rig.servers(2).await;
    for _ in 0..10 {
        let (_, held) = rig.held_build(run(lane)).await;
        let writer = tokio::spawn({
            let store = Arc::clone(&servers[1]);
            async move {
                let mut kept = 0;
                loop {
                    match store.add_logs(held.run, Some(held), None, lines(&["line"]), ROOM).await.unwrap() {
                        LogAnswer::Kept(last) => kept = last,
                        LogAnswer::LeaseLost => return kept,
                        other => panic!("{other:?}"),
                    }
                }
            }
        });
        while rig.store.logs(held.run, 0, 1).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(rig.complete(held).await, done(State::Completed));
        let at_the_end = rig.log(held.run, 1_000).await.len() as u64;
        assert_eq!(writer.await.unwrap(), at_the_end);
        assert_eq!(rig.log(held.run, 1_000).await.len() as u64, at_the_end);
    }
}

async fn half_a_million_lines_are_one_batch(rig: Rig) {
    const LINES: usize = 500_000;
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held_build(run(lane)).await;
    rig.say(held.run, Some(held), &["before"]).await;
    let line = |number: usize| LogLine { level: "info".into(), message: format!("{number:>95}"), at: None };
    let batch: Vec<LogLine> = (0..LINES).map(line).collect();
    let answer = rig.store.add_logs(held.run, Some(held), None, batch, ROOM).await.unwrap();
    assert_eq!(answer, LogAnswer::Kept(LINES as u64 + 1));
    assert_eq!(rig.say(held.run, Some(held), &["after"]).await, LogAnswer::Kept(LINES as u64 + 2));
    for number in [0, 1, 999, 1_000, 250_000, LINES - 1] {
        let found = rig.store.logs(held.run, number as u64 + 1, 1).await.unwrap().remove(0);
        assert_eq!((found.number, found.message), (number as u64 + 2, format!("{number:>95}")));
    }
    let page = rig.store.logs(held.run, 100_000, 2_500).await.unwrap();
    assert_eq!((page.len(), page[0].number, page[2_499].number), (2_500, 100_001, 102_500));
}

async fn a_page_of_large_lines_is_short(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held_build(run(lane)).await;
    let large = "x".repeat(1 << 20);
    for _ in 0..10 {
        rig.say(held.run, Some(held), &[&large]).await;
    }
    let huge = "y".repeat(3 * LOG_PAGE_BYTES_MAX as usize);
    rig.say(held.run, Some(held), &[&huge, "end"]).await;
    let page = rig.store.logs(held.run, 0, 1_000).await.unwrap();
    assert!((1..=5).contains(&page.len()), "{} lines of a mebibyte", page.len());
    let log = rig.log(held.run, 1_000).await;
    assert_eq!((log.len(), log[10].message.len(), log[11].message.as_str()), (12, huge.len(), "end"));
}

async fn logs_survive_a_restart(rig: Rig) {
    let lane = rig.lane("ios").await;
    let (_, held) = rig.held_build(run(lane)).await;
    rig.say(held.run, Some(held), &["a", "b"]).await;
    let before = rig.log(held.run, 10).await;
    let rig = rig.reopen().await;
    assert_eq!(rig.log(held.run, 10).await, before);
    assert_eq!(rig.say(held.run, Some(held), &["c"]).await, LogAnswer::Kept(3));
}
