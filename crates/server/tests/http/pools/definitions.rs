//! Pools as people make, change and delete them.

use serde_json::{Value, json};

use super::rig::Rig;
use crate::harness::{On, eventually, on_both};

async fn a_pool_is_made_shown_changed_and_listed(on: On) {
    let rig = Rig::start(on).await;
    let made =
        rig.pool(json!({"max_size": 3, "options": {"agent.register_hook": "true", "api_token": "hidden"}})).await;
    assert_eq!((&made["provider"], &made["cpu"], &made["usage"]), (&json!("fake"), &json!(1), &json!("on_demand")));
    assert_eq!(made["options"], json!({"agent.register_hook": "true", "api_token": "***"}));
    assert_eq!((&made["runners"]["idle"], &made["deleting"]), (&json!(0), &json!(false)));
    let again = json!({"name": "ci", "provider": "fake", "max_size": 3, "options": {"agent.register_hook": "true", "api_token": "hidden"}});
    assert_eq!(rig.server.call("POST", "/api/v1/pools", again.to_string()).await.status, 200, "the same again");
    let other = json!({"name": "ci", "provider": "fake", "max_size": 4}).to_string();
    assert_eq!(rig.server.call("POST", "/api/v1/pools", other).await.refusal(), "409 conflict");

    let change = json!({"max_size": 5, "revision": made["revision"]}).to_string();
    let changed = rig.server.call("PATCH", "/api/v1/pools/ci", change.clone()).await.json();
    assert_eq!((&changed["max_size"], &changed["options"]), (&json!(5), &made["options"]));
    assert_eq!(rig.server.call("PATCH", "/api/v1/pools/ci", change).await.refusal(), "409 conflict");

    rig.server.call("POST", "/api/v1/pools", json!({"name": "b", "provider": "fake"}).to_string()).await;
    let first = rig.server.call("GET", "/api/v1/pools?limit=1", "").await.json();
    assert_eq!(first["pools"][0]["name"], "b");
    let cursor = first["next_cursor"].as_str().unwrap().replace('\u{1f}', "%1F");
    let second = rig.server.call("GET", &format!("/api/v1/pools?limit=1&cursor={cursor}"), "").await.json();
    assert_eq!(second["pools"][0]["name"], "ci");
    for action in ["pool.create", "pool.change"] {
        assert!(!rig.audited(action).await.is_empty(), "{action} is written down");
    }
}

async fn what_makes_no_sense_is_refused(on: On) {
    let rig = Rig::start(on).await;
    let create = async |more: serde_json::Value| {
        let mut wanted = json!({"name": "x", "provider": "fake"});
        wanted.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        rig.server.call("POST", "/api/v1/pools", wanted.to_string()).await.refusal()
    };
    for wrong in [
        json!({"provider": "cloud9"}),
        json!({"provider": "command"}),
        json!({"name": ""}),
        json!({"name": "a/b"}),
        json!({"name": "a\nb"}),
        json!({"name": "x "}),
        json!({"namespace": " mobile"}),
        json!({"namespace": "mobile/ios"}),
        json!({"max_size": 0}),
        json!({"min_idle": 11}),
        json!({"options": {"wrong": "x"}}),
        json!({"options": {"A B": "x"}}),
        json!({"options": {"agent.registerhook": "true"}}),
        json!({"options": {"agent.hook_timeout": "90"}}),
        json!({"min_idle_rules": [{"cron": "now and then", "min_idle": 1}]}),
        json!({"min_idle": 4, "min_idle_rules": [{"cron": "0 19 * * *", "min_idle": 1}]}),
        json!({"options": {"agent.register_hook": "hooks/register.sh"}}),
        json!({"options": {"agent.hook_directory": "hooks"}}),
        json!({"provider": "local", "options": {"agent.register_hook": "./register \"$BATON_RUN_ID\""}}),
        json!({"provider": "local", "options": {"agent.deregister_hook": "/no/such/hook"}}),
        json!({"provider": "local", "options": {"agent.register_hook": "no-such-program-anywhere"}}),
        json!({"usage": "borrowed"}),
        json!({"colour": "blue"}),
    ] {
        assert_eq!(create(wrong.clone()).await, "422 invalid", "{wrong}");
    }
    for (method, path) in [("GET", ""), ("PATCH", ""), ("DELETE", ""), ("POST", "/claims"), ("GET", "/runners")] {
        let body = if method == "POST" { r#"{"run_id": "1"}"# } else { "" };
        let answer = rig.server.call(method, &format!("/api/v1/pools/none{path}"), body).await;
        assert_eq!(answer.refusal(), "404 not_found", "{method} {path}");
    }
}

async fn min_idle_is_the_least_at_any_time(on: On) {
    let rig = Rig::start(on).await;
    // Whenever a rule fired last, there are never fewer than min_idle.
    let rules = json!([{"cron": "0 8 * * *", "min_idle": 5}, {"cron": "0 19 * * *", "min_idle": 2}]);
    let made = rig.pool(json!({"min_idle": 2, "min_idle_rules": rules, "max_size": 9})).await;
    let now = made["min_idle_now"].as_u64().unwrap();
    assert!(now == 5 || now == 2, "{made}");
    let raise = |min_idle: u32| rig.server.call("PATCH", "/api/v1/pools/ci", json!({"min_idle": min_idle}).to_string());
    let refused = raise(4).await;
    assert_eq!(refused.refusal(), "422 invalid");
    let said = refused.json().to_string();
    assert!(said.contains("0 19 * * *") && said.contains("asks for 2") && said.contains("lower min_idle"), "{said}");
    let rules = json!({"min_idle": 4, "min_idle_rules": [{"cron": "0 8 * * *", "min_idle": 6}, {"cron": "0 19 * * *", "min_idle": 4}]});
    assert_eq!(rig.server.call("PATCH", "/api/v1/pools/ci", rules.to_string()).await.status, 200);
    let machines = async || rig.fake.machines().len() >= 4;
    eventually("as many as are wanted at any time", machines).await;
}

async fn an_address_that_nobody_answers_is_refused_or_told(on: On) {
    let rig = Rig::with(on, |settings| settings.pool_url = Some("http://127.0.0.1:1".into())).await;
    let create = async |name: &str, provider: &str| {
        let wanted = json!({"name": name, "provider": provider}).to_string();
        rig.server.call("POST", "/api/v1/pools", wanted).await
    };
    let refused = create("here", "local").await;
    assert_eq!(refused.refusal(), "422 invalid");
    let said = refused.json().to_string();
    assert!(said.contains("http://127.0.0.1:1 (pool_url)") && said.contains("nobody answers"), "{said}");
    // Machines elsewhere may reach what this one does not.
    let made = create("ci", "fake").await;
    assert_eq!(made.status, 201, "{made:?}");
    for shown in [made.json(), rig.show().await] {
        let note = shown["error"].as_str().unwrap().to_owned();
        assert!(note.contains("http://127.0.0.1:1 (pool_url); from here, nobody answers"), "{note}");
    }
}

async fn who_may_do_what_is_a_matter_of_scope_and_namespace(on: On) {
    let rig = Rig::start(on).await;
    rig.pool(json!({})).await;
    let key = async |scope: &str, namespace: Option<&str>| {
        let wanted = json!({"name": "x", "scopes": [scope], "namespace": namespace}).to_string();
        rig.server.call("POST", "/api/v1/keys", wanted).await.json()["key"].as_str().unwrap().to_owned()
    };
    let call = async |key: &str, method: &str, path: &str, body: &str| {
        let request = rig.server.request(method, path).header("x-api-key", key);
        rig.server.send(request, body.to_owned()).await
    };
    let (read, submit, foreign) =
        (key("read", None).await, key("submit", None).await, key("admin", Some("else")).await);
    assert_eq!(call(&read, "GET", "/api/v1/pools/ci", "").await.status, 200);
    assert_eq!(call(&read, "POST", "/api/v1/pools/ci/claims", r#"{"run_id": "1"}"#).await.refusal(), "403 forbidden");
    assert_eq!(call(&submit, "POST", "/api/v1/pools/ci/claims", r#"{"run_id": "1"}"#).await.status, 201);
    assert_eq!(call(&submit, "DELETE", "/api/v1/pools/ci", "").await.refusal(), "403 forbidden");
    assert_eq!(call(&foreign, "GET", "/api/v1/pools/ci", "").await.refusal(), "403 forbidden");
    assert_eq!(call(&foreign, "GET", "/api/v1/pools", "").await.json()["pools"], json!([]));
    // Agents of such a pool run next to the server.
    let local = r#"{"name": "mine", "namespace": "else", "provider": "local"}"#;
    assert_eq!(call(&foreign, "POST", "/api/v1/pools", local).await.refusal(), "403 forbidden");
    let fake = r#"{"name": "mine", "namespace": "else", "provider": "fake"}"#;
    assert_eq!(call(&foreign, "POST", "/api/v1/pools", fake).await.status, 201);
}

async fn a_secret_that_is_sent_back_as_it_is_shown_stays_as_it_is(on: On) {
    let rig = Rig::start(on).await;
    let made = rig.pool(json!({"options": {"api_key": "abc", "size": "1"}})).await;
    assert_eq!(made["options"], json!({"api_key": "***", "size": "1"}));
    let change = async |options: Value| {
        rig.server.call("PATCH", "/api/v1/pools/ci", json!({"options": options}).to_string()).await
    };
    assert_eq!(change(json!({"api_key": "***", "size": "2"})).await.status, 200);
    let kept = async || rig.server.app.store.pool("default", "ci").await.unwrap().unwrap().spec.options;
    assert_eq!(serde_json::to_value(kept().await).unwrap(), json!({"api_key": "abc", "size": "2"}));
    let unknown = change(json!({"api_key": "***", "other_key": "***"})).await;
    assert_eq!(unknown.refusal(), "422 invalid");
    assert_eq!(change(json!({"api_key": "new"})).await.status, 200);
    assert_eq!(serde_json::to_value(kept().await).unwrap(), json!({"api_key": "new"}));
}

async fn a_deleted_pool_goes_with_its_last_runner(on: On) {
    let rig = Rig::start(on).await;
    rig.pool(json!({"min_idle": 1, "max_size": 2})).await;
    let mut agents = rig.idle(1).await;
    rig.claims("one", 1).await;
    rig.register_all(&mut agents, "one").await;
    assert_eq!(rig.settled("one").await["state"], "ready");
    let opened = rig.claim(json!({"run_id": "two", "count": 2})).await;
    assert_eq!(opened.status, 201);
    let deleting = rig.server.call("DELETE", "/api/v1/pools/ci", "").await.json();
    assert_eq!(deleting["deleting"], true);
    assert_eq!(rig.claim(json!({"run_id": "three"})).await.refusal(), "409 conflict");
    let failed = rig.settled("two").await;
    assert_eq!((&failed["state"], &failed["reason"]), (&json!("failed"), &json!("pool_deleted")));
    assert_eq!(rig.claimed("one").await["state"], "ready", "what was handed over stays");
    rig.release("one").await;
    agents[0].hears(&rig, "deregister").await;
    agents[0].says(&rig, "UD_REMOVE_REG_OK", Some("one")).await;
    agents[0].hears(&rig, "end").await;
    crate::harness::eventually("the pool is gone", async || {
        rig.server.call("GET", "/api/v1/pools/ci", "").await.status == 404
    })
    .await;
    assert_eq!(rig.fake.machines(), []);
}

async fn numbers_of_a_deleted_pool_are_not_shown_any_longer(on: On) {
    let rig = Rig::start(on).await;
    let is_shown = async |pool: &str| {
        let line = format!(r#"baton_pool_claim_wait_seconds_count{{namespace="default",pool="{pool}"}} 1"#);
        rig.server.client.metrics().await.unwrap().lines().any(|text| text == line)
    };
    for pool in ["stays", "goes"] {
        rig.pool(json!({"name": pool, "max_size": 1})).await;
        let path = format!("/api/v1/pools/{pool}/claims");
        assert_eq!(rig.server.call("POST", &path, r#"{"run_id": "one"}"#).await.status, 201);
        eventually("its machine is made", async || rig.fake.machines().len() == 1).await;
        let mut agents = rig.joined().await;
        agents[0].says(&rig, "UD_OK", None).await;
        rig.register_all(&mut agents, "one").await;
        eventually("it has waited", async || is_shown(pool).await).await;
        rig.server.call("DELETE", &format!("{path}/one"), "").await;
        agents[0].hears(&rig, "deregister").await;
        agents[0].says(&rig, "UD_REMOVE_REG_OK", Some("one")).await;
        rig.server.clock.advance(30 * 60_000);
        eventually("its machine is ended", async || rig.fake.machines().is_empty()).await;
    }
    rig.server.call("DELETE", "/api/v1/pools/goes", "").await;
    eventually("its numbers are gone", async || {
        rig.server.app.pools.keeper.ring();
        !is_shown("goes").await
    })
    .await;
    assert!(is_shown("stays").await, "nobody else knows how long claims waited");
}

on_both!(
    min_idle_is_the_least_at_any_time,
    an_address_that_nobody_answers_is_refused_or_told,
    a_pool_is_made_shown_changed_and_listed,
    what_makes_no_sense_is_refused,
    who_may_do_what_is_a_matter_of_scope_and_namespace,
    a_secret_that_is_sent_back_as_it_is_shown_stays_as_it_is,
    a_deleted_pool_goes_with_its_last_runner,
    numbers_of_a_deleted_pool_are_not_shown_any_longer,
);
