//! `baton demo`: the first command of a newcomer.

use std::time::{Duration, Instant};

use baton_testkit::Process;

use crate::site::BATON;

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_runs_clean_within_half_a_minute() {
    let begun = Instant::now();
    let mut demo = Process::spawn(BATON, ["demo"], [("BATON_LOG", "warn")]);
    let status = demo.wait(Duration::from_secs(60)).await;
    let took = begun.elapsed();
    let said = demo.output();
    println!("the demo took {took:?}");
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(took < Duration::from_secs(30), "it took {took:?}:\n{said}");
    let value = |name: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no line {name:?} in:\n{said}")).trim().to_owned()
    };
    assert_eq!((value("lost ").as_str(), value("completed twice ").as_str()), ("0", "0"));
    assert_eq!(value("runs "), value("completed "));
    assert!(value("late completions refused ").contains("lease_lost"), "{said}");
}
