use super::*;
use proptest::prelude::*;

const DAY_MS: Millis = 24 * 3_600 * 1_000;
/// A Monday, midnight UTC.
const MONDAY: Millis = 1_699_833_600_000;

fn spec() -> PoolSpec {
    PoolSpec {
        provider: "local".into(),
        options: BTreeMap::new(),
        cpu: 4,
        memory_mib: 8_192,
        types: vec!["m7?.*".into()],
        usage: Usage::Spot,
        spot_fallback: true,
        min_idle: 1,
        min_idle_rules: vec![],
        max_size: 10,
        idle_ms: 600_000,
        runtime_ms: 3_600_000,
    }
}

fn rule(cron: &str, min_idle: u32) -> MinIdleRule {
    MinIdleRule { cron: cron.into(), zone: "UTC".into(), min_idle }
}

fn machine(kind: &str, usage: Usage) -> Machine {
    Machine { kind: kind.into(), usage, cpu: 4, memory_mib: 8_192 }
}

#[test]
fn patterns_stand_for_what_they_say() {
    for (pattern, text) in [
        ("*", ""),
        ("m7*", "m7g.large"),
        ("m?g.*", "m7g.large"),
        ("*.large", "m7g.large"),
        ("a*b*c", "a.b.b.c"),
        ("x", "x"),
    ] {
        assert!(is_like(pattern, text), "{pattern} {text}");
    }
    for (pattern, text) in
        [("", "x"), ("m7", "m7g"), ("?", ""), ("a*b", "a"), ("M7*", "m7g"), ("*.large", "m7g.xlarge2")]
    {
        assert!(!is_like(pattern, text), "{pattern} {text}");
    }
}

#[test]
fn cores_are_exact_and_memory_is_at_least() {
    let machine = machine("m7g.large", Usage::OnDemand);
    let fits = |wanted: Wanted| wanted.fits(&machine);
    assert!(fits(Wanted::default()));
    assert!(fits(Wanted { cpu: Some(4), memory_mib: Some(8_000), ..Wanted::default() }));
    assert!(!fits(Wanted { cpu: Some(2), ..Wanted::default() }));
    assert!(!fits(Wanted { memory_mib: Some(8_193), ..Wanted::default() }));
    assert!(fits(Wanted { types: vec!["c*".into(), "m7*".into()], ..Wanted::default() }));
    assert!(!fits(Wanted { types: vec!["c*".into()], ..Wanted::default() }));
}

#[test]
fn whoever_wants_a_machine_that_stays_gets_no_spot_machine() {
    let wants = |usage| Wanted { usage: Some(usage), ..Wanted::default() };
    assert!(!wants(Usage::OnDemand).fits(&machine("a", Usage::Spot)));
    assert!(wants(Usage::OnDemand).fits(&machine("a", Usage::OnDemand)));
    assert!(wants(Usage::Spot).fits(&machine("a", Usage::Spot)));
    assert!(wants(Usage::Spot).fits(&machine("a", Usage::OnDemand)));
}

#[test]
fn the_rule_that_fired_last_counts() {
    let rules = vec![rule("0 8 * * 1-5", 20), rule("0 18 * * 1-5", 2)];
    let spec = PoolSpec { min_idle_rules: rules, max_size: 30, ..spec() };
    let hour = |day: Millis, hour: Millis| MONDAY + day * DAY_MS + hour * 3_600_000;
    assert_eq!(spec.min_idle_at(hour(0, 7)), (2, Some(hour(0, 8))), "Friday evening's rule still counts");
    assert_eq!(spec.min_idle_at(hour(0, 8)), (20, Some(hour(0, 18))), "a rule counts from the moment it fires");
    assert_eq!(spec.min_idle_at(hour(0, 19)), (2, Some(hour(1, 8))));
    assert_eq!(spec.min_idle_at(hour(5, 12)), (2, Some(hour(7, 8))), "nothing fires on a Saturday");
    assert_eq!(PoolSpec { min_idle_rules: vec![], ..spec }.min_idle_at(MONDAY), (1, None));
}

#[test]
fn of_rules_that_fire_together_the_last_counts() {
    let spec = PoolSpec { min_idle_rules: vec![rule("0 8 * * *", 3), rule("0 8 * * 1", 4)], ..spec() };
    assert_eq!(spec.min_idle_at(MONDAY + 9 * 3_600_000).0, 4);
}

#[test]
fn a_spec_says_what_is_wrong_with_it() {
    assert_eq!(spec().check(), Ok(()));
    let wrong = |change: fn(&mut PoolSpec)| {
        let mut spec = spec();
        change(&mut spec);
        spec.check().unwrap_err()
    };
    assert!(wrong(|spec| spec.provider.clear()).contains("provider"));
    assert!(wrong(|spec| spec.cpu = 0).contains("cpu"));
    assert!(wrong(|spec| spec.memory_mib = MEMORY_MIB_MAX + 1).contains("memory_mib"));
    assert!(wrong(|spec| spec.max_size = 0).contains("max_size"));
    assert!(wrong(|spec| spec.max_size = SIZE_MAX + 1).contains("max_size"));
    assert!(wrong(|spec| spec.min_idle = 11).contains("min_idle"));
    assert!(wrong(|spec| spec.types = vec![String::new()]).contains("types"));
    assert!(wrong(|spec| spec.types = vec!["*".into(); TYPES_MAX + 1]).contains("types"));
    assert!(wrong(|spec| spec.runtime_ms = 0).contains("runtime_ms"));
    assert!(wrong(|spec| spec.min_idle_rules = vec![rule("61 * * * *", 1)]).contains("minute"));
    assert!(wrong(|spec| spec.min_idle_rules = vec![rule("* * * * *", 11)]).contains("min_idle"));
    assert!(wrong(|spec| spec.min_idle_rules = vec![rule("* * * * *", 1); RULES_MAX + 1]).contains("rules"));
}

#[test]
fn a_spec_reads_as_it_was_written() {
    let spec = PoolSpec { min_idle_rules: vec![rule("0 8 * * *", 3)], ..spec() };
    assert_eq!(serde_json::from_str::<PoolSpec>(&serde_json::to_string(&spec).unwrap()).unwrap(), spec);
}

/// What a pattern means, told slowly.
fn is_like_slowly(pattern: &[char], text: &[char]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some(('*', rest)) => (0..=text.len()).any(|taken| is_like_slowly(rest, &text[taken..])),
        Some(('?', rest)) => !text.is_empty() && is_like_slowly(rest, &text[1..]),
        Some((wanted, rest)) => text.first() == Some(wanted) && is_like_slowly(rest, &text[1..]),
    }
}

proptest! {
    #[test]
    fn patterns_mean_the_same_fast_and_slowly(pattern in "[ab*?]{0,8}", text in "[ab]{0,8}") {
        let slowly = is_like_slowly(&pattern.chars().collect::<Vec<_>>(), &text.chars().collect::<Vec<_>>());
        prop_assert_eq!(is_like(&pattern, &text), slowly);
    }
}

#[test]
fn patterns_that_some_type_is_like_are_told_from_those_that_none_is() {
    for (one, other) in [
        ("m5*", "m5.large"),
        ("m5*", "*.large"),
        ("*", "local"),
        ("*", "*"),
        ("a?c", "abc"),
        ("a?c", "?b?"),
        ("a*", "a"),
        ("a*b*c", "ab*d*c"),
        ("**", "?"),
        ("", ""),
        ("", "*"),
        ("m*.l*", "m5.?arge"),
    ] {
        assert!(can_be_alike(one, other) && can_be_alike(other, one), "{one:?} {other:?}");
    }
    for (one, other) in
        [("m5*", "local"), ("m5*", "c5*"), ("?", ""), ("a?", "a"), ("*.large", "m5.small"), ("a*b", "b*a")]
    {
        assert!(!can_be_alike(one, other) && !can_be_alike(other, one), "{one:?} {other:?}");
    }
}

proptest::proptest! {
    #[test]
    fn a_text_is_like_a_pattern_as_one_pattern_is_like_another(pattern in "[ab?*]{0,6}", text in "[ab]{0,6}") {
        proptest::prop_assert_eq!(can_be_alike(&pattern, &text), is_like(&pattern, &text));
    }
}

#[test]
fn min_idle_is_the_least_at_any_time() {
    let spec = PoolSpec { min_idle: 5, min_idle_rules: vec![rule("0 8 * * *", 3)], ..spec() };
    assert_eq!(spec.min_idle_at(MONDAY + 9 * 3_600_000).0, 5, "as it may be kept from before");
    let why = spec.check().unwrap_err();
    assert!(why.contains("\"0 8 * * *\" asks for 3") && why.contains("min_idle asks for 5"), "{why}");
    assert_eq!(PoolSpec { min_idle: 3, ..spec }.check(), Ok(()));
}

#[test]
fn a_pattern_covers_another_when_nothing_escapes_it() {
    for (wide, narrow) in
        [("m7*", "m7i.*"), ("*", "*"), ("m7?.large", "m7?.large"), ("m7i.large", "m7i.large"), ("*.large", "m?.large")]
    {
        assert!(covers(wide, narrow), "{wide} {narrow}");
    }
    for (wide, narrow) in [("m7?.large", "m7*.large"), ("m7i.large", "m7?.large"), ("m7??", "m7*"), ("c*", "m*")] {
        assert!(!covers(wide, narrow), "{wide} {narrow}");
    }
}

#[test]
fn types_of_a_claim_narrow_those_of_its_pool() {
    let list = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    let both = |pool: &[&str], wanted: &[&str]| narrowed(&list(pool), &list(wanted));
    assert_eq!(both(&["m7i.large", "m7a.large", "c7i.large"], &["m7*"]), ["m7a.large", "m7i.large"]);
    assert_eq!(both(&["m7?.large"], &["m7i.large", "m7a.large"]), ["m7a.large", "m7i.large"]);
    assert_eq!(both(&["m7?.large"], &["m7i.*"]), ["m7?.large"], "they only overlap");
    assert_eq!(both(&["m5.large"], &[]), ["m5.large"]);
    assert_eq!(both(&[], &["m5.large"]), ["m5.large"]);
}
