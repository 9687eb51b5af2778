use super::*;
use proptest::prelude::*;

fn machine(kind: &str, usage: Usage, memory_mib: u64) -> Machine {
    Machine { kind: kind.into(), usage, cpu: 2, memory_mib }
}

fn waiting(claim: ClaimNo, priority: u8, owner: &str, missing: u32) -> Waiting {
    Waiting { claim, priority, owner: owner.into(), missing, wanted: Wanted::default() }
}

fn order(claims: Vec<Waiting>) -> Vec<ClaimNo> {
    in_order(claims).iter().map(|claim| claim.claim).collect()
}

#[test]
fn priority_goes_first_then_age() {
    assert_eq!(
        order(vec![waiting(3, 5, "a", 1), waiting(1, 1, "b", 1), waiting(2, 5, "c", 1), waiting(4, 9, "d", 1)]),
        [4, 2, 3, 1]
    );
}

#[test]
fn owners_take_turns() {
    let many = (1..=4).map(|claim| waiting(claim, 5, "many", 1));
    let few = (5..=6).map(|claim| waiting(claim, 5, "few", 1));
    assert_eq!(order(many.chain(few).collect()), [1, 5, 2, 6, 3, 4]);
    let other_priority = vec![waiting(1, 9, "a", 1), waiting(2, 5, "a", 1), waiting(3, 5, "b", 1)];
    assert_eq!(order(other_priority), [1, 2, 3], "turns are taken within a priority");
}

#[test]
fn the_first_claim_takes_all_it_lacks() {
    let machines =
        [machine("a", Usage::OnDemand, 1), machine("a", Usage::OnDemand, 1), machine("a", Usage::OnDemand, 1)];
    let idle: Vec<&Machine> = machines.iter().collect();
    assert_eq!(assign(&[waiting(1, 5, "a", 2), waiting(2, 5, "b", 2)], &idle), [(0, 0), (0, 1), (1, 2)]);
}

#[test]
fn whoever_can_takes_what_others_may_not_be_able_to_use() {
    let machines =
        [machine("large", Usage::OnDemand, 8), machine("small", Usage::OnDemand, 4), machine("spot", Usage::Spot, 16)];
    let idle: Vec<&Machine> = machines.iter().collect();
    assert_eq!(assign(&[waiting(1, 5, "a", 2)], &idle), [(0, 2), (0, 1)]);
    let picky = Waiting { wanted: Wanted { types: vec!["l*".into()], ..Wanted::default() }, ..waiting(1, 5, "a", 2) };
    assert_eq!(assign(&[picky, waiting(2, 5, "b", 1)], &idle), [(0, 0), (1, 2)]);
}

#[test]
fn a_lower_priority_yields_only_when_nothing_else_helps() {
    let machine = machine("a", Usage::OnDemand, 1);
    let taken = [1, 1, 1, 2].map(|owner| Taken { owner, machine: &machine });
    let claims = in_order(vec![waiting(1, 3, "a", 1), waiting(2, 1, "b", 1), waiting(3, 9, "c", 3)]);
    assert_eq!(yields(&claims, &taken, 0, 0), [3, 0, 1], "the last in the order gives first");
    assert_eq!(yields(&claims, &taken, 1, 1), [3]);
    assert_eq!(yields(&claims, &taken, 0, 3), [0; 0]);
    let equal = in_order(vec![waiting(1, 5, "a", 1), waiting(3, 5, "c", 3)]);
    assert_eq!(yields(&equal, &taken, 0, 0), [0; 0], "claims of the same priority wait");
    let filled = in_order(vec![waiting(1, 3, "a", 1), waiting(3, 9, "c", 0)]);
    assert_eq!(yields(&filled, &taken, 0, 0), [0; 0]);
    let other = Waiting { wanted: Wanted { cpu: Some(64), ..Wanted::default() }, ..waiting(3, 9, "c", 3) };
    assert_eq!(
        yields(&in_order(vec![waiting(1, 3, "a", 1), other]), &taken, 0, 0),
        [0; 0],
        "what does not fit is of no help"
    );
}

#[test]
fn a_claim_ends_once() {
    use ClaimState::*;
    assert_eq!(fill(Waiting), Ok(Ready));
    assert_eq!(
        [Ready, Released, Failed].map(fill),
        [Err(ClaimRefused::AlreadyDone), Err(ClaimRefused::Ended), Err(ClaimRefused::Ended)]
    );
    assert_eq!(release(Waiting), Ok((Released, ClaimReason::Cancelled)));
    assert_eq!(release(Ready), Ok((Released, ClaimReason::Done)));
    assert_eq!([Released, Failed].map(release), [Err(ClaimRefused::AlreadyDone), Err(ClaimRefused::Ended)]);
    let fail = |state| fail(state, ClaimReason::Impossible);
    assert_eq!(fail(Waiting), Ok((Failed, ClaimReason::Impossible)));
    assert_eq!(
        [Ready, Released, Failed].map(fail),
        [Err(ClaimRefused::Filled), Err(ClaimRefused::Ended), Err(ClaimRefused::AlreadyDone)]
    );
    let expire = |state| expire(state, Some(10), 11);
    assert_eq!(expire(Waiting), Ok((Failed, ClaimReason::WaitOver)));
    assert_eq!(expire(Ready), Ok((Released, ClaimReason::RuntimeOver)));
    assert_eq!([Released, Failed].map(expire), [Err(ClaimRefused::Ended); 2]);
    assert_eq!(lose(Ready), Ok((Released, ClaimReason::RunnersLost)));
    assert_eq!(lose(Waiting), Err(ClaimRefused::NotDue));
    assert_eq!([Released, Failed].map(lose), [Err(ClaimRefused::Ended); 2]);
    assert_eq!([Some(11), None].map(|deadline| super::expire(Waiting, deadline, 11)), [Err(ClaimRefused::NotDue); 2]);
}

#[test]
fn words_and_numbers_are_read_back() {
    for state in ClaimState::ALL {
        assert_eq!(
            (ClaimState::from_code(state.code()), ClaimState::parse(state.as_str())),
            (Some(state), Some(state))
        );
    }
    for reason in ClaimReason::ALL {
        assert_eq!(ClaimReason::from_code(reason.code()), Some(reason));
    }
}

fn machines() -> impl Strategy<Value = Vec<Machine>> {
    let one = (0..3u8, any::<bool>(), 1..4u64).prop_map(|(kind, spot, memory)| {
        machine(&kind.to_string(), if spot { Usage::Spot } else { Usage::OnDemand }, memory)
    });
    proptest::collection::vec(one, 0..12)
}

fn claims() -> impl Strategy<Value = Vec<Waiting>> {
    let one = (0..3u8, "[ab]", 0..5u32, 0..4u8, any::<bool>(), 1..4u64);
    proptest::collection::vec(one, 0..6).prop_map(|all| {
        let claims =
            all.into_iter().enumerate().map(|(number, (priority, owner, missing, kind, stays, memory))| Waiting {
                wanted: Wanted {
                    types: if kind < 3 { vec![kind.to_string()] } else { vec![] },
                    usage: stays.then_some(Usage::OnDemand),
                    memory_mib: Some(memory),
                    cpu: None,
                },
                ..waiting(number as ClaimNo, priority, &owner, missing)
            });
        in_order(claims.collect())
    })
}

proptest! {
    #[test]
    fn nobody_gets_what_does_not_fit_or_too_much_and_nothing_is_given_twice(claims in claims(), machines in machines()) {
        let idle: Vec<&Machine> = machines.iter().collect();
        let given = assign(&claims, &idle);
        let mut seen = std::collections::HashSet::new();
        for (who, place) in &given {
            prop_assert!(seen.insert(*place));
            prop_assert!(claims[*who].wanted.fits(idle[*place]));
        }
        for (who, claim) in claims.iter().enumerate() {
            let got = given.iter().filter(|(to, _)| *to == who).count();
            prop_assert!(got <= claim.missing as usize);
            // Whoever is short left nothing that would fit, to anybody behind it.
            if got < claim.missing as usize {
                let nothing_left = (0..idle.len()).all(|place| {
                    let to = given.iter().find(|(_, given)| *given == place).map(|(to, _)| *to);
                    !claim.wanted.fits(idle[place]) || to.is_some_and(|to| to <= who)
                });
                prop_assert!(nothing_left);
            }
        }
    }
}
