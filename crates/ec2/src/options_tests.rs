use serde_json::json;

use super::*;

fn spec(types: &[&str], options: serde_json::Value) -> PoolSpec {
    let spec = json!({"provider": "ec2", "types": types, "options": options, "cpu": 2, "memory_mib": 4096,
        "max_size": 4, "idle_ms": 1000, "runtime_ms": 1000});
    serde_json::from_value(spec).unwrap()
}

#[test]
fn a_launch_template_and_types_are_enough() {
    let read = Options::of(&spec(&["m7?.large"], json!({"launch_template": "lt-0a1b2c"}))).unwrap();
    assert_eq!(read.template, Template::Id("lt-0a1b2c".into()));
    assert_eq!((read.version.as_str(), read.subnets.len(), read.region), ("$Default", 0, None));
    assert_eq!(read.program, "/usr/local/bin/baton");
}

#[test]
fn everything_can_be_said() {
    let said = json!({"launch_template": "ci/runners", "launch_template_version": "12",
        "subnets": "subnet-1, subnet-2,subnet-1", "region": "eu-central-1", "spot_max_price": "0.05",
        "setup": "echo hello", "program": "/opt/baton", "agent.register_hook": "true"});
    let read = Options::of(&spec(&["c7i.large"], said)).unwrap();
    assert_eq!(read.template, Template::Name("ci/runners".into()));
    assert_eq!(read.version, "12");
    assert_eq!(read.subnets, ["subnet-1", "subnet-2"]);
    assert_eq!(read.region.as_deref(), Some("eu-central-1"));
    assert_eq!(read.spot_max_price.as_deref(), Some("0.05"));
    assert_eq!((read.setup.as_deref(), read.program.as_str()), (Some("echo hello"), "/opt/baton"));
}

#[test]
fn what_is_wrong_is_named() {
    let refused = |types: &[&str], option: &str, value: &str| {
        let mut said = json!({"launch_template": "lt-1"});
        said[option] = value.into();
        Options::of(&spec(types, said)).unwrap_err()
    };
    for (option, value, named) in [
        ("launch_template", " ", "options.launch_template"),
        ("launch_template", "a b", "options.launch_template"),
        ("launch_template_version", "newest", "$Latest"),
        ("launch_template_version", "0", "$Latest"),
        ("launch_template_version", "-1", "$Latest"),
        ("subnets", "subnet-1,vpc-1", "vpc-1"),
        ("subnets", "subnet-", "options.subnets"),
        ("region", "http://evil/", "options.region"),
        ("spot_max_price", "cheap", "options.spot_max_price"),
        ("spot_max_price", "0.001", "options.spot_max_price"),
        ("spot_max_price", "inf", "options.spot_max_price"),
        ("program", "baton", "options.program"),
        ("launch_templat", "lt-1", "knows no launch_templat"),
        ("endpoint_url", "http://x", "knows no endpoint_url"),
    ] {
        let why = refused(&["m7i.large"], option, value);
        assert!(why.contains(named), "{option}={value}: {why}");
    }
    assert!(refused(&[], "region", "eu-central-1").contains("needs types"));
    assert!(refused(&["m7i large"], "region", "eu-central-1").contains("m7i large"));
    let many = (0..21).map(|number| format!("subnet-{number}")).collect::<Vec<_>>().join(",");
    assert!(refused(&["m7i.large"], "subnets", &many).contains("at most 20"));
}
