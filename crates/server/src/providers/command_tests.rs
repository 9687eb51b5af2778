//! Scripts that do as they should, refuse, hang, and talk too much.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use super::*;

struct Scripts {
    directory: tempfile::TempDir,
    provider: CommandProvider,
}

impl Scripts {
    fn with(body: &str) -> Scripts {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("machines");
        std::fs::write(&path, format!("#!/bin/sh\ncd {}\n{body}\n", directory.path().display())).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        let provider = CommandProvider::new(directory.path().to_owned(), 1_000);
        Scripts { directory, provider }
    }

    fn file(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.directory.path().join(name)).ok()
    }
}

fn pool() -> PoolInfo {
    let spec = serde_json::from_value(serde_json::json!({
        "provider": "command", "options": {"script": "machines"}, "cpu": 2, "memory_mib": 512, "max_size": 3, "idle_ms": 1, "runtime_ms": 1
    }));
    PoolInfo { tag: "t-1".into(), namespace: "default".into(), name: "ci".into(), spec: spec.unwrap() }
}

fn create() -> Create {
    let environment = BTreeMap::from([("BATON_JOIN_TOKEN".to_owned(), "bj_secret".to_owned())]);
    Create { pool: pool(), token: "o-1".into(), count: 2, usage: Usage::Spot, types: vec![], environment }
}

#[tokio::test]
async fn a_script_reads_what_is_asked_and_prints_machines() {
    let scripts = Scripts::with(
        r#"cat > "asked.$1"; echo '{"machines": [{"id": "m-1", "type": "big"}, {"id": "m-2", "cpu": 4}]}'"#,
    );
    let made = scripts.provider.create(&create()).await.unwrap();
    let machine = |kind: &str, cpu| Machine { kind: kind.into(), usage: Usage::Spot, cpu, memory_mib: 512 };
    assert_eq!(made.iter().map(|made| made.id.as_str()).collect::<Vec<_>>(), ["m-1", "m-2"]);
    assert_eq!((&made[0].machine, &made[1].machine), (&machine("big", 2), &machine("", 4)));
    let asked: serde_json::Value = serde_json::from_str(&scripts.file("asked.create").unwrap()).unwrap();
    assert_eq!((&asked["token"], &asked["count"], &asked["usage"]), (&"o-1".into(), &2.into(), &"spot".into()));
    assert_eq!(asked["environment"]["BATON_JOIN_TOKEN"], "bj_secret");
    scripts.provider.terminate(&pool(), &["m-1".to_owned()]).await.unwrap();
    let asked: serde_json::Value = serde_json::from_str(&scripts.file("asked.terminate").unwrap()).unwrap();
    assert_eq!(asked["machines"], serde_json::json!(["m-1"]));
    assert_eq!(scripts.provider.list(&pool()).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_script_that_refuses_is_told_from_one_that_may_be_asked_again() {
    let refuses = Scripts::with("echo 'no capacity' >&2; exit 3").provider.create(&create()).await.unwrap_err();
    assert!(matches!(&refuses, ProviderError::Refused(why) if why.contains("no capacity")), "{refuses:?}");
    let asks = Scripts::with("echo later >&2; exit 75").provider.create(&create()).await.unwrap_err();
    assert!(matches!(&asks, ProviderError::Unclear(why) if why.contains("later")), "{asks:?}");
    let killed = Scripts::with("kill -9 $$").provider.create(&create()).await.unwrap_err();
    assert!(matches!(killed, ProviderError::Unclear(_)), "{killed:?}");
}

#[tokio::test]
async fn what_is_not_json_or_too_much_is_not_believed() {
    for body in ["echo machines", "yes", "yes >&2", r#"echo '{"machines": [{}]}'"#] {
        let scripts = Scripts::with(&format!("timeout 1 {body}"));
        let error = scripts.provider.list(&pool()).await.unwrap_err();
        assert!(matches!(error, ProviderError::Unclear(_) | ProviderError::Refused(_)), "{body}: {error:?}");
    }
    assert_eq!(Scripts::with("true").provider.create(&create()).await, Ok(vec![]));
}

#[tokio::test]
async fn a_script_that_lists_nothing_has_to_say_so() {
    for body in ["true", "echo '{}'", r#"echo '{"machines": null}'"#] {
        let silent = Scripts::with(body).provider.list(&pool()).await.unwrap_err();
        assert!(matches!(&silent, ProviderError::Unclear(why) if why.contains("machines")), "{body}: {silent:?}");
    }
    let empty = Scripts::with(r#"echo '{"machines": []}'"#);
    assert_eq!(empty.provider.list(&pool()).await, Ok(vec![]));
}

#[tokio::test]
async fn a_script_that_hangs_ends_with_all_it_has_started_when_nobody_waits_any_more() {
    let scripts = Scripts::with("sleep 1000 & echo $! > child; wait");
    let pool = pool();
    let hung = tokio::time::timeout(Duration::from_secs(20), async {
        tokio::select! {
            done = scripts.provider.list(&pool) => panic!("it ended: {done:?}"),
            () = async { while scripts.file("child").is_none_or(|text| !text.ends_with('\n')) { tokio::task::yield_now().await } } => {}
        }
    });
    hung.await.unwrap();
    let child: i32 = scripts.file("child").unwrap().trim().parse().unwrap();
    std::iter::repeat_with(|| super::super::process::Process::of(child)).find(Option::is_none).unwrap();
}

#[test]
fn a_script_is_a_file_of_the_directory_and_nothing_else() {
    let scripts = Scripts::with("true");
    let check = |name: &str| {
        let mut spec = pool().spec;
        spec.options.insert(SCRIPT.into(), name.into());
        scripts.provider.check(&spec)
    };
    assert_eq!(check("machines"), Ok(()));
    for wrong in ["", ".", "..", "../machines", "/bin/true", "a/b", "missing", "x y"] {
        assert!(check(wrong).is_err(), "{wrong:?}");
    }
    let said = check("../machines").unwrap_err();
    assert!(said.starts_with("options.script: ../machines must be a plain file name"), "{said}");
}

#[tokio::test]
async fn a_script_that_cannot_be_started_is_a_refusal_and_found_before() {
    let scripts = Scripts::with("true");
    let path = scripts.directory.path().join("machines");
    std::fs::write(&path, "#!/no/such/shell\n").unwrap();
    let no_shell = scripts.provider.create(&create()).await.unwrap_err();
    assert!(
        matches!(&no_shell, ProviderError::Misconfigured(why) if why.contains("cannot be started")),
        "{no_shell:?}"
    );
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let said = scripts.provider.check(&pool().spec).unwrap_err();
    assert!(said.contains("not executable"), "{said}");
    assert_eq!(scripts.provider.create(&create()).await, Err(ProviderError::Misconfigured(said)));
}
