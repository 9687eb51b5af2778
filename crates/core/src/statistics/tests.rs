use proptest::prelude::*;

use super::*;
use crate::Reason;

const NOW: Millis = 1_700_000_000_000;

#[test]
fn charts_have_the_lengths_that_are_promised() {
    let cases =
        [(Resolution::Seconds, 360, 10_000), (Resolution::Minutes, 1_440, 60_000), (Resolution::Hours, 744, HOUR)];
    for (resolution, count, step_ms) in cases {
        let window = Window::last(resolution, NOW, 10_000);
        assert_eq!((window.count, window.step_ms, window.resolution), (count, step_ms, resolution));
        assert_eq!(window.from % step_ms, 0);
        assert_eq!(window.index(NOW), Some(count - 1), "the last point is the one being filled");
        assert_eq!((window.index(window.from - 1), window.index(window.until())), (None, None));
    }
}

#[test]
fn fewer_points_are_longer_steps() {
    let window = Window::last(Resolution::Seconds, NOW, 30);
    assert!(
        window.count <= 30 && window.step_ms % MINUTE == 0 && window.resolution == Resolution::Minutes,
        "{window:?}"
    );
    assert!(window.index(NOW).is_some() && window.index(NOW - HOUR + STEP).is_some());
}

#[test]
fn a_stretch_is_shown_as_exactly_as_it_is_kept() {
    let of = |from, until| Window::new(from, until, NOW, 10_000).resolution;
    assert_eq!(of(NOW - 1_000, NOW), Resolution::Seconds);
    assert_eq!(of(NOW - 2 * HOUR, NOW - HOUR), Resolution::Minutes, "it is too old for steps of 10 seconds");
    assert_eq!(of(NOW - 2 * HOUR, NOW), Resolution::Minutes);
    assert_eq!(of(NOW - 2 * DAY, NOW - 2 * DAY + MINUTE), Resolution::Hours);
}

fn subject() -> impl Strategy<Value = Subject> {
    (0..3_usize, 0..3_u8, 0..6_u8).prop_map(|(kind, namespace, name)| match Kind::ALL[kind] {
        Kind::Queue => Subject::queue(&format!("n{namespace}"), &format!("q{name}")),
        Kind::Workers => Subject::workers(&format!("n{namespace}")),
        Kind::Pool => Subject::pool(&format!("n{namespace}"), &format!("p{name}")),
    })
}

fn numbers() -> impl Strategy<Value = Numbers> {
    let number = (0..MEASURES, prop_oneof![0..100_u64, 0..u64::from(u32::MAX)]);
    let spans = prop::collection::vec(0..1_000_000_i64, 0..6);
    (prop::collection::vec(number, 0..6), spans.clone(), spans).prop_map(|(some, wait, duration)| {
        let mut numbers = Numbers::default();
        some.into_iter().for_each(|(place, number)| numbers.add(Measure::ALL[place], number));
        wait.into_iter().for_each(|ms| numbers.wait.note(ms));
        duration.into_iter().for_each(|ms| numbers.duration.note(ms));
        numbers
    })
}

fn bucket() -> impl Strategy<Value = Bucket> {
    (0..20_u64, prop::collection::btree_map(subject(), numbers(), 0..8))
        .prop_map(|(looks, subjects)| Bucket { looks, subjects })
}

fn block(step_ms: Millis) -> impl Strategy<Value = Block> {
    prop::collection::btree_map(
        (0..40_i64).prop_map(move |index| NOW - NOW % step_ms + index * step_ms),
        bucket(),
        0..6,
    )
    .prop_map(move |buckets| Block { step_ms, buckets })
}

fn merged(step_ms: Millis, blocks: &[&Block]) -> Block {
    let mut all = Block::new(step_ms);
    blocks.iter().for_each(|block| all.merge(block));
    all
}

/// Everything that a block tells, whoever it is about.
fn sum(block: &Block) -> Numbers {
    let mut all = Numbers::default();
    block.buckets.values().flat_map(|bucket| bucket.subjects.values()).for_each(|numbers| all.merge(numbers));
    all
}

proptest! {
    #[test]
    fn what_is_written_is_read(block in block(STEP)) {
        prop_assert_eq!(Block::decode(&block.encode()), Ok(block));
    }

    #[test]
    fn damaged_bytes_are_refused_and_never_a_panic(
        block in block(STEP), place in any::<prop::sample::Index>(), byte: u8, cut: bool
    ) {
        let mut bytes = block.encode();
        let place = place.index(bytes.len());
        if cut { bytes.truncate(place) } else { bytes[place] = byte }
        // Some damage makes another block; none makes a panic or takes much memory.
        let _ = Block::decode(&bytes);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Block::decode(&bytes);
        let _ = Block::decode(&[&[1][..], &bytes].concat());
    }

    #[test]
    fn blocks_are_put_together_in_any_order(one in block(STEP), two in block(STEP), three in block(MINUTE)) {
        let there = merged(MINUTE, &[&one, &two, &three]);
        prop_assert_eq!(&there, &merged(MINUTE, &[&three, &two, &one]));
        // Also when some were put together before.
        prop_assert_eq!(&there, &merged(MINUTE, &[&merged(MINUTE, &[&two, &three]), &one]));
        // Minutes of 10 seconds are the same as hours of them, once both are hours.
        prop_assert_eq!(merged(HOUR, &[&there]), merged(HOUR, &[&one, &two, &three]));
    }

    #[test]
    fn folding_loses_nothing_and_is_bounded(one in block(STEP), most in 1..4_usize) {
        let mut folded = one.clone();
        folded.fold(most);
        prop_assert_eq!(sum(&folded), sum(&one));
        for kind in Kind::ALL {
            let of_kind: std::collections::BTreeSet<_> = folded.buckets.values()
                .flat_map(|bucket| bucket.subjects.keys()).filter(|subject| subject.kind == kind).collect();
            prop_assert!(of_kind.iter().filter(|subject| !subject.name.is_empty()).count() <= most);
            prop_assert!(of_kind.len() <= 2 * most + 1);
        }
        let mut again = folded.clone();
        again.fold(most);
        prop_assert_eq!(again, folded, "once is enough");
    }

    #[test]
    fn a_window_holds_what_was_asked_for(
        back in 1..40 * DAY, span in 1..40 * DAY, points in 1..2_000_usize
    ) {
        let (from, until) = (NOW - back, NOW - back + span);
        let window = Window::new(from, until, NOW, points);
        prop_assert!(window.from <= from && window.until() >= until, "{:?}", window);
        prop_assert!(window.count <= points.max(2), "{:?}", window);
        prop_assert_eq!(window.from % window.step_ms, 0);
        prop_assert_eq!(window.times().count(), window.count);
        prop_assert_eq!(window.times().last(), Some(window.until() - window.step_ms));
        // All that it is made of is still kept.
        if let Some(finer) = Resolution::ALL.into_iter().rev().find(|other| *other < window.resolution) {
            prop_assert!(window.step_ms % finer.step_ms() == 0);
        }
        let coarser = Resolution::ALL.into_iter().find(|other| *other > window.resolution);
        if let Some(merged_before) = coarser.and_then(|coarser| coarser.takes_before(NOW)) {
            prop_assert!(window.from >= merged_before, "{:?}", window);
        }
    }
}

#[test]
fn a_level_is_not_added_up_over_servers() {
    let seen = |ready: u64| {
        let mut bucket = Bucket { looks: 1, ..Bucket::default() };
        bucket.of(Subject::queue("default", "mail"), 10).add(Measure::Ready, ready);
        bucket.of(Subject::queue("default", "mail"), 10).add(Measure::OldestMs, ready * 10);
        bucket
    };
    let mut both = seen(412);
    both.merge(&seen(414));
    let mail = &both.subjects[&Subject::queue("default", "mail")];
    assert_eq!(mail.get(Measure::Ready) / both.looks, 413);
    assert_eq!(mail.get(Measure::OldestMs), 4_140);
}

#[test]
fn the_busiest_are_told_apart_and_namespaces_are_not_mixed() {
    let mut block = Block::new(STEP);
    let bucket = block.buckets.entry(NOW).or_default();
    for (namespace, name, count) in
        [("a", "busy", 9), ("a", "calm", 2), ("b", "calm", 3), ("a", "quiet", 1), ("c", "x", 1)]
    {
        bucket.of(Subject::queue(namespace, name), 100).add(Measure::Failed(Reason::Error), count);
    }
    block.fold(2);
    let counted: Vec<_> = block.buckets[&NOW]
        .subjects
        .iter()
        .map(|(subject, numbers)| (&*subject.namespace, &*subject.name, numbers.get(Measure::Failed(Reason::Error))))
        .collect();
    assert_eq!(counted, [("a", "", 3), ("a", "busy", 9), ("b", "calm", 3), ("c", "", 1)]);
}

#[test]
fn a_full_bucket_counts_newcomers_together() {
    let mut bucket = Bucket::default();
    for number in 0..1_000 {
        bucket.of(Subject::queue(&format!("n{}", number % 7), &format!("q{number}")), 50).add(Measure::Claimed, 1);
    }
    assert!(bucket.subjects.len() <= 101, "{}", bucket.subjects.len());
    assert_eq!(bucket.subjects.values().map(|numbers| numbers.get(Measure::Claimed)).sum::<u64>(), 1_000);
    assert!(bucket.subjects.keys().all(|subject| !subject.namespace.is_empty()));
}

#[test]
fn later_versions_are_told_from_damage() {
    assert_eq!(Block::decode(&[2]), Err(Unreadable::Newer(2)));
    assert_eq!(Block::decode(&[0]), Err(Unreadable::Damaged));
    assert_eq!(Block::decode(&[]), Err(Unreadable::Damaged));
}
