use super::*;
use baton_core::statistics::HOUR;
use baton_store::sqlite::SqliteStore;
use baton_store::{LaneName, Store};

const NOW: Millis = 1_700_000_040_000;

/// Counters on a clock that is moved by hand, and a lane of each of these queues.
async fn counting(queues: usize) -> (Counters, Clock, Vec<LaneId>) {
    let clock = Clock::manual(NOW);
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open_in_memory(clock.clone()).unwrap());
    let lanes = Arc::new(Lanes::load(store).await.unwrap());
    let name =
        |number| LaneName { namespace: format!("n{}", number % 2), queue: format!("q{number}"), kind: "k".into() };
    let numbers = lanes.get((0..queues).map(name).collect()).await.unwrap();
    let counters = Counters::default();
    counters.begin(lanes, clock.clone(), false, NOW);
    (counters, clock, numbers.into_iter().map(|lane| lane.lane).collect())
}

fn submitted(blocks: &[Arc<Sealed>]) -> u64 {
    let buckets = blocks.iter().flat_map(|sealed| sealed.block.buckets.values());
    let numbers = buckets.flat_map(|bucket| bucket.subjects.values());
    numbers.map(|numbers| numbers.get(Measure::Submitted)).sum()
}

fn ups(blocks: &[Arc<Sealed>]) -> Vec<Millis> {
    let mut ups: Vec<_> = blocks.iter().flat_map(|sealed| sealed.block.buckets.keys().map(|at| at - NOW)).collect();
    ups.sort_unstable();
    ups
}

#[tokio::test]
async fn what_is_counted_is_in_the_bucket_of_its_moment() {
    let (counters, clock, lanes) = counting(1).await;
    counters.submitted([lanes[0]].into_iter());
    clock.advance(9_999);
    counters.submitted([lanes[0], lanes[0]].into_iter());
    clock.advance(1);
    counters.submitted([lanes[0]].into_iter());
    let blocks = counters.unwritten();
    let subject = Subject::queue("n0", "q0");
    let counts: Vec<_> = blocks[0]
        .block
        .buckets
        .iter()
        .map(|(at, bucket)| (at - NOW, bucket.subjects[&subject].get(Measure::Submitted)))
        .collect();
    assert_eq!(counts, [(0, 3), (STEP, 1)]);
}

#[tokio::test]
async fn a_block_stays_until_the_store_has_it_and_keeps_its_number() {
    let (counters, clock, lanes) = counting(1).await;
    counters.submitted(lanes.iter().copied());
    let open = counters.unwritten()[0].seq;
    assert!(counters.next().is_none(), "the minute is not over");
    clock.advance(MINUTE);
    counters.tick();
    let sealed = counters.next().unwrap();
    assert_eq!((sealed.seq, submitted(&counters.unwritten())), (open, 1));
    assert_eq!(counters.next().unwrap().seq, open, "it is still there");
    counters.written(open);
    assert!(counters.next().is_none());
    assert_eq!(submitted(&counters.unwritten()), 0);
}

#[tokio::test]
async fn quiet_time_is_told_from_time_in_which_the_server_stood_still() {
    let (counters, clock, _) = counting(1).await;
    clock.advance(30_000);
    counters.tick();
    assert_eq!(ups(&counters.unwritten()), [0, 10_000, 20_000, 30_000]);
    clock.advance(HOUR);
    counters.tick();
    assert_eq!(ups(&counters.unwritten()), [0, 10_000, 20_000, 30_000, HOUR + 30_000]);
}

#[tokio::test]
async fn a_clock_that_jumps_makes_gaps_and_loses_nothing() {
    let (counters, clock, lanes) = counting(1).await;
    for jump in [0, HOUR, -HOUR, 5 * HOUR, -1, -3_000, -6 * HOUR, 24 * HOUR, -24 * HOUR + 20_000] {
        clock.advance(jump);
        counters.submitted(lanes.iter().copied());
    }
    let blocks = counters.unwritten();
    assert_eq!(submitted(&blocks), 9);
    let seqs: Vec<_> = blocks.iter().map(|sealed| sealed.seq).collect();
    assert!(seqs.windows(2).all(|two| two[0] < two[1]), "each part of a minute is a block of its own: {seqs:?}");
    assert!(blocks.iter().all(|sealed| sealed.block.buckets.keys().all(|at| floor(*at, MINUTE) == sealed.at)));
}

#[tokio::test]
async fn memory_is_bounded_while_the_store_is_away() {
    let (counters, clock, lanes) = counting(1).await;
    for _ in 0..PENDING_MAX + 10 {
        counters.submitted(lanes.iter().copied());
        clock.advance(MINUTE);
    }
    counters.tick();
    assert_eq!((counters.unwritten().len(), counters.lost()), (PENDING_MAX + 1, 10));
}

#[tokio::test]
async fn ten_thousand_queues_take_bounded_room_and_stay_apart_by_namespace() {
    let (counters, clock, lanes) = counting(10_000).await;
    for _ in 0..3 {
        counters.submitted(lanes.iter().copied());
        clock.advance(STEP);
    }
    let blocks = counters.unwritten();
    assert_eq!(submitted(&blocks), 30_000);
    for bucket in blocks.iter().flat_map(|sealed| sealed.block.buckets.values()) {
        assert!(bucket.subjects.len() <= 2 * SUBJECTS_MAX, "{}", bucket.subjects.len());
    }
    let mut block = blocks[0].block.clone();
    block.fold(crate::statistics::SUBJECTS_SHOWN_MAX);
    let own = |namespace: &str| -> u64 {
        let subjects = block.buckets.values().flat_map(|bucket| &bucket.subjects);
        let own = subjects.filter(|(subject, _)| &*subject.namespace == namespace);
        own.map(|(_, numbers)| numbers.get(Measure::Submitted)).sum()
    };
    assert_eq!((own("n0"), own("n1"), own("")), (own("n1"), own("n0"), 0));
    assert!(block.encode().len() < 20_000, "{} bytes", block.encode().len());
}

/// What counting costs, and what a minute weighs. Figures are in docs/adr/0028.
#[tokio::test]
#[ignore = "prints measurements for docs/adr/0028; run it with --ignored --nocapture"]
async fn what_counting_costs() {
    const TIMES: u32 = 200_000;
    let (counters, clock, lanes) = counting(100).await;
    let begun = Instant::now();
    for time in 0..TIMES {
        counters.submitted(std::iter::once(lanes[time as usize % 100]));
    }
    let submit = begun.elapsed() / TIMES;
    let mut die: u64 = 1;
    let mut settled: Vec<Settled> = Vec::new();
    for time in 0..TIMES {
        die = die.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let held_ms = Some(((die >> 33) % 1_000 * ((die >> 50) % 8 + 1)) as Millis);
        let lane = lanes[time as usize % 100];
        settled.push(Settled { lane, state: State::Completed, end: Some(LeaseEnd::Completed), reason: None, held_ms });
    }
    let begun = Instant::now();
    settled.chunks(64).for_each(|batch| counters.settled(batch));
    let end = begun.elapsed() / TIMES;
    println!("submit, one at a time: {submit:?}; end, 64 at a time, with its duration: {end:?}");
    for _ in 0..5 {
        clock.advance(STEP);
        settled.chunks(64).take(300).for_each(|batch| counters.settled(batch));
        counters.submitted(lanes.iter().copied());
    }
    let mut block = counters.unwritten().pop().unwrap().block.clone();
    block.fold(100);
    let idle = Block { step_ms: STEP, buckets: block.buckets.keys().map(|at| (*at, Bucket::default())).collect() };
    let begun = Instant::now();
    let bytes = block.encode();
    let (encoded, begun) = (begun.elapsed(), Instant::now());
    let decoded = Block::decode(&bytes).unwrap();
    println!(
        "a minute of 100 busy queues: {} bytes, {} buckets, written in {encoded:?}, read in {:?}; idle: {} bytes",
        bytes.len(),
        decoded.buckets.len(),
        begun.elapsed(),
        idle.encode().len()
    );
}
