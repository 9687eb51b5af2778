use aws_sdk_ec2::types::{CreateFleetError, CreateFleetInstance};
use serde_json::json;

use super::*;

fn answer(codes: &[&str]) -> CreateFleetOutput {
    let error = |code: &&str| CreateFleetError::builder().error_code(*code).error_message("so it is").build();
    CreateFleetOutput::builder().set_errors(Some(codes.iter().map(error).collect())).build()
}

#[test]
fn a_lack_of_machines_is_told_apart_from_what_somebody_has_to_mend() {
    for code in ["InsufficientInstanceCapacity", "SpotMaxPriceTooLow", "MaxSpotInstanceCountExceeded"] {
        let why = refusal(&answer(&[code, "InvalidParameterValue"]), Usage::Spot);
        assert!(matches!(&why, ProviderError::Refused(why) if why.contains(code)), "{why:?}");
    }
    let why = refusal(&answer(&["UnauthorizedOperation", "UnauthorizedOperation"]), Usage::Spot);
    let told = "EC2 made fewer spot machines than were asked for: UnauthorizedOperation (2 times): so it is";
    assert_eq!(why, ProviderError::Misconfigured(told.into()));
    assert!(matches!(refusal(&answer(&[]), Usage::OnDemand), ProviderError::Refused(_)));
}

#[test]
fn every_type_is_tried_in_every_subnet_up_to_what_a_fleet_takes() {
    let kind = |number: u32| Kind { name: format!("m{number}.large"), cpu: 2, memory_mib: 8192 };
    let spec = json!({"provider": "ec2", "types": ["m*"], "cpu": 2, "memory_mib": 4096, "max_size": 4, "idle_ms": 1,
        "runtime_ms": 1, "options": {"launch_template": "lt-1", "subnets": "subnet-1,subnet-2", "spot_max_price": "0.1"}});
    let options = Options::of(&serde_json::from_value(spec).unwrap()).unwrap();
    let kinds: Vec<Kind> = (0..200).map(kind).collect();
    let some: Vec<&Kind> = kinds.iter().take(2).collect();
    let pairs = |all: Vec<FleetLaunchTemplateOverridesRequest>| -> Vec<String> {
        let show = |one: FleetLaunchTemplateOverridesRequest| {
            let price = one.max_price().unwrap_or("any");
            format!("{} {} {price}", one.instance_type().unwrap().as_str(), one.subnet_id().unwrap())
        };
        all.into_iter().map(show).collect()
    };
    let spot = pairs(overrides(&some, &options, Usage::Spot));
    assert_eq!(spot[..2], ["m0.large subnet-1 0.1", "m0.large subnet-2 0.1"]);
    assert_eq!(pairs(overrides(&some, &options, Usage::OnDemand))[3], "m1.large subnet-2 any");
    assert_eq!(overrides(&kinds.iter().collect::<Vec<_>>(), &options, Usage::Spot).len(), OVERRIDES_MAX);
}

#[test]
fn a_machine_has_the_way_it_is_paid_for_from_the_answer() {
    let spec = json!({"provider": "ec2", "types": ["m*"], "cpu": 2, "memory_mib": 4096, "max_size": 4, "idle_ms": 1,
        "runtime_ms": 1});
    let pool = baton_server::providers::PoolInfo {
        tag: "tag".into(),
        namespace: "default".into(),
        name: "ci".into(),
        spec: serde_json::from_value(spec).unwrap(),
    };
    let wanted = Create {
        pool,
        token: "token".into(),
        count: 3,
        usage: Usage::Spot,
        types: vec![],
        environment: BTreeMap::new(),
    };
    let made = |lifecycle: Option<InstanceLifecycle>, id: &str| {
        CreateFleetInstance::builder()
            .set_lifecycle(lifecycle)
            .instance_type("m7i.large".into())
            .instance_ids(id)
            .build()
    };
    let answer = CreateFleetOutput::builder()
        .instances(made(Some(InstanceLifecycle::OnDemand), "i-1"))
        .instances(made(None, "i-2"))
        .build();
    let machines = machines(&answer, &wanted, &PoolKinds::default());
    let seen: Vec<_> = machines.iter().map(|machine| (machine.id.as_str(), machine.machine.usage)).collect();
    assert_eq!(seen, [("i-1", Usage::OnDemand), ("i-2", Usage::Spot)]);
    assert_eq!(machines[0].machine.memory_mib, 4096, "of a type that is not known, what the pool wants");
}
