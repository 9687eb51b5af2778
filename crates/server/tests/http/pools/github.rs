//! Runners at GitHub: made for the run that has claimed the machine, one for each machine, and gone afterwards. GitHub is a stand-in.

use baton_server::Settings;
use baton_testkit::{GITHUB_TOKEN, GitHub, GitHubFault};
use serde_json::{Value, json};

use super::rig::{Agent, Rig};
use crate::harness::{Answer, On, eventually, on_both};

const PATIENT_MS: u64 = 100_000_000;
const REPOSITORY: &str = "repos/acme/shop";

/// A server that knows the stand-in.
async fn start(on: On) -> (Rig, GitHub) {
    start_with(on, |_| {}).await
}

async fn start_with(on: On, change: impl FnOnce(&mut Settings)) -> (Rig, GitHub) {
    let github = GitHub::start();
    let url = github.url.clone();
    let rig = Rig::with(on, |settings| {
        change(settings);
        settings.github_url = url;
        settings.github_token = Some(GITHUB_TOKEN.to_owned().into());
        // Agents here say what they have to, and nothing else.
        settings.pool_heartbeat_timeout_ms = PATIENT_MS;
        settings.pool_new_heartbeat_timeout_ms = PATIENT_MS;
        settings.pool_silent_ms = PATIENT_MS;
    });
    (rig.await, github)
}

/// As `start`, with a pool of so many idle runners.
async fn warm(on: On, count: usize) -> (Rig, GitHub, Vec<Agent>) {
    let (rig, github) = start(on).await;
    rig.pool(json!({"min_idle": count, "max_size": 4, "options": {"github.repository": "acme/shop"}})).await;
    let agents = rig.idle(count).await;
    (rig, github, agents)
}

/// As `warm`, with one runner that is claimed for `run`.
async fn claimed(on: On) -> (Rig, GitHub, Agent) {
    let (rig, github, mut agents) = warm(on, 1).await;
    rig.claims("run", 1).await;
    let mut agent = agents.remove(0);
    agent.hears(&rig, "register").await;
    (rig, github, agent)
}

impl Agent {
    /// Asks for what it needs to be a runner.
    async fn asks(&self, rig: &Rig, run_id: &str) -> Answer {
        let wanted = json!({"run_id": run_id, "epoch": self.order["epoch"]}).to_string();
        let answer = self.call(rig, "POST", "registration", wanted).await;
        assert!(!format!("{answer:?}").contains(GITHUB_TOKEN), "the token stays on the server");
        answer
    }

    async fn takes_back(&self, rig: &Rig) {
        let answer = self.call(rig, "DELETE", "registration", String::new()).await;
        assert_eq!(answer.status, 204, "{answer:?}");
    }
}

async fn a_claimed_machine_becomes_a_runner_whose_only_label_is_the_run(on: On) {
    let (rig, github, mut agents) = warm(on, 2).await;
    assert_eq!(rig.fake.asked()[0].environment["BATON_AGENT_HOOK"], "github");
    assert!(!format!("{:?}", rig.fake.asked()).contains(GITHUB_TOKEN), "not even to providers");
    assert_eq!(agents[0].asks(&rig, "run").await.refusal(), "409 conflict", "nobody has claimed it");
    rig.claims("run", 1).await;
    let place = rig.registering(&mut agents, "run").await;
    let mut agent = agents.remove(place);
    let other = agents.remove(0);
    assert_eq!(agent.asks(&rig, "another").await.refusal(), "409 conflict");
    let stolen = Agent { token: other.token.clone(), ..agent.clone() };
    assert_eq!(stolen.asks(&rig, "run").await.refusal(), "403 forbidden");
    assert_eq!(github.runners(), []);

    let made = agent.asks(&rig, "run").await;
    assert_eq!((made.status, made.headers["cache-control"].as_bytes()), (200, &b"no-store"[..]), "{made:?}");
    let [runner] = &github.runners()[..] else { panic!("{:?}", github.runners()) };
    assert_eq!((&runner.labels[..], runner.scope.as_str()), (&["run".to_owned()][..], REPOSITORY));
    let expected = json!({"method": "jit", "name": runner.name, "config": format!("jit-config-of-{}", runner.id)});
    assert_eq!(made.json(), expected);
    assert!(runner.name.ends_with(&agent.id), "{runner:?}");

    // The answer may have got lost: there is another one, and not two.
    let again = agent.asks(&rig, "run").await.json();
    let [second] = &github.runners()[..] else { panic!("{:?}", github.runners()) };
    assert!(second.id > runner.id && second.name == runner.name);
    assert_eq!(again["config"], format!("jit-config-of-{}", second.id));

    agent.says(&rig, "UD_REG_OK", Some("run")).await;
    assert_eq!(rig.settled("run").await["state"], "ready");
    // It has done a job, for which a runner is good once. The run goes on.
    github.forget(&runner.name);
    agent.hears(&rig, "keep").await;
    assert_eq!(agent.asks(&rig, "run").await.status, 200);
    assert_eq!(github.runners().len(), 1);

    rig.release("run").await;
    agent.hears(&rig, "deregister").await;
    assert_eq!(agent.asks(&rig, "run").await.refusal(), "409 conflict", "it is given back");
    agent.takes_back(&rig).await;
    assert_eq!(github.runners(), []);
    agent.takes_back(&rig).await;
    agent.says(&rig, "UD_REMOVE_REG_OK", Some("run")).await;
    rig.until("idle", 2).await;
}

async fn what_passes_by_itself_is_tried_again(on: On) {
    let (rig, github, agent) = claimed(on).await;
    github.next(GitHubFault::Answer(503, vec![], "Service unavailable"));
    github.next(GitHubFault::Answer(
        403,
        vec![("retry-after", "1".into())],
        "You have exceeded a secondary rate limit",
    ));
    github.next(GitHubFault::Answer(
        429,
        vec![("x-ratelimit-remaining", "0".into()), ("x-ratelimit-reset", "1".into())],
        "",
    ));
    // It is made, and nobody hears of it.
    github.next(GitHubFault::Lost);
    assert_eq!(agent.asks(&rig, "run").await.status, 200);
    let [runner] = &github.runners()[..] else { panic!("{:?}", github.runners()) };
    assert_eq!(runner.id, 2, "the first one made way");
    github.next(GitHubFault::Answer(502, vec![], ""));
    agent.takes_back(&rig).await;
    assert_eq!(github.runners(), []);
}

async fn a_claim_says_what_github_said(on: On) {
    let (rig, github, mut agent) = claimed(on).await;
    let refusal = "Resource not accessible by personal access token ghp_a-token-for-the-tests";
    github.next(GitHubFault::Answer(403, vec![], refusal));
    let answer = agent.asks(&rig, "run").await;
    assert_eq!(answer.refusal(), "502 github_failed");
    let asked = github.calls().into_iter().filter(|call| call.starts_with("POST")).count();
    assert_eq!(asked, 1, "there is no use in asking again");
    let why = answer.json()["error"].as_str().unwrap().to_owned();
    assert_eq!(why, "GitHub answered 403: Resource not accessible by personal access token ***");
    // The machine is well: it goes back, with what GitHub said, and the claim goes on.
    agent.hears(&rig, "deregister").await;
    let moved = rig.server.call("GET", &format!("/api/v1/pools/ci/runners/{}", agent.id), "").await.json();
    let given_back = moved["moves"].as_array().unwrap().iter().find(|event| event["to"] == "releasing").cloned();
    assert_eq!(given_back.unwrap()["detail"], why, "{moved}");
    let claim = rig.claimed("run").await;
    assert_eq!((&claim["state"], &claim["runners"], &claim["discarded"]), (&json!("waiting"), &json!([]), &json!(0)));
    assert_eq!(claim["detail"], format!("{why}; no machine is registered before GitHub answers again"));
    agent.says(&rig, "UD_REMOVE_REG_OK", Some("run")).await;
    rig.until("idle", 1).await;
    // Whoever has waited in vain is told whose fault it was.
    assert_eq!(rig.claim(json!({"run_id": "brief", "wait_ms": 5_000})).await.status, 201);
    rig.server.clock.advance(5_001);
    let failed = rig.settled("brief").await;
    assert_eq!((&failed["state"], &failed["reason"]), (&json!("failed"), &json!("wait_over")));
    assert!(failed["detail"].as_str().unwrap().ends_with(&format!("; {why}")), "{failed}");
    assert_eq!(rig.fake.terminated(), [""; 0]);
}

async fn trouble_at_github_costs_no_machine(on: On) {
    let (rig, github) = start_with(on, |settings| {
        // As long as answers of 500 are tried again.
        (settings.pool_register_ms, settings.pool_new_register_ms) = (1_000, 1_000);
    })
    .await;
    rig.pool(json!({"min_idle": 2, "max_size": 2, "options": {"github.repository": "acme/shop"}})).await;
    let mut agents = rig.idle(2).await;
    let secondary = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.";
    for (round, (status, said, wait_ms)) in
        [(403, secondary, 60_000), (503, "Unicorn!", 30_000), (500, "", 30_000), (429, secondary, 60_000)]
            .into_iter()
            .enumerate()
    {
        let run = format!("run-{round}");
        rig.claims(&run, 2).await;
        (0..100).for_each(|_| github.next(GitHubFault::Answer(status, vec![], said)));
        for agent in &mut agents {
            agent.hears(&rig, "register").await;
            let asks = || github.calls().into_iter().filter(|call| call.starts_with("POST")).count();
            let asked = asks();
            let refused = agent.asks(&rig, &run).await;
            assert_eq!(refused.refusal(), "502 github_failed", "{status}");
            let why = refused.json()["error"].as_str().unwrap().to_owned();
            assert!(why.starts_with(&format!("GitHub answered {status}")), "{why}");
            let calls = asks() - asked;
            assert!(calls <= 1 || said != secondary, "a rate limit is not asked again and again: {calls}");
            agent.hears(&rig, "deregister").await;
            agent.says(&rig, "UD_REMOVE_REG_OK", Some(&run)).await;
        }
        github.recover();
        rig.until("idle", 2).await;
        let claim = rig.claimed(&run).await;
        assert_eq!((&claim["state"], &claim["runners"]), (&json!("waiting"), &json!([])), "nobody takes what is held");
        rig.server.clock.advance(wait_ms + 1);
        for agent in &mut agents {
            agent.hears(&rig, "register").await;
            assert_eq!(agent.asks(&rig, &run).await.status, 200);
            agent.says(&rig, "UD_REG_OK", Some(&run)).await;
        }
        assert_eq!(rig.settled(&run).await["state"], "ready");
        rig.release(&run).await;
        for agent in &mut agents {
            agent.hears(&rig, "deregister").await;
            agent.takes_back(&rig).await;
            agent.says(&rig, "UD_REMOVE_REG_OK", Some(&run)).await;
        }
        rig.until("idle", 2).await;
    }
    assert_eq!(rig.fake.terminated(), [""; 0]);
    assert_eq!(rig.fake.machines().len(), 2);
}

async fn a_name_that_github_does_not_let_go_of_costs_its_machine_alone(on: On) {
    let (rig, github, agents) = warm(on, 2).await;
    let prefix = {
        let tag = rig.fake.asked()[0].pool.tag.clone();
        format!("baton-{tag}-")
    };
    agents.iter().take(1).for_each(|agent| {
        github.add(REPOSITORY, &format!("{prefix}{}", agent.id), true);
    });
    rig.claims("run", 2).await;
    let (mut busy, mut other) = (agents[0].clone(), agents[1].clone());
    busy.hears(&rig, "register").await;
    assert_eq!(busy.asks(&rig, "run").await.refusal(), "502 github_failed");
    busy.hears(&rig, "end").await;
    other.hears(&rig, "register").await;
    assert_eq!(other.asks(&rig, "run").await.status, 200);
    let failure = rig.claimed("run").await["failures"][0].clone();
    assert_eq!(failure["cause"], "register_failed");
    assert!(failure["detail"].as_str().unwrap().contains("at work"), "{failure}");
}

async fn while_github_refuses_no_machine_is_thrown_away(on: On) {
    let (rig, github, mut agents) = warm(on, 3).await;
    rig.claims("first", 1).await;
    let place = rig.registering(&mut agents, "first").await;
    github.next(GitHubFault::Answer(401, vec![], "Bad credentials"));
    assert_eq!(agents[place].asks(&rig, "first").await.refusal(), "502 github_failed");
    assert_eq!(rig.show().await["error"], "GitHub answered 401: Bad credentials");
    agents[place].hears(&rig, "deregister").await;
    agents[place].says(&rig, "UD_REMOVE_REG_OK", Some("first")).await;
    rig.until("idle", 3).await;
    rig.claims("second", 1).await;
    github.next_probe(GitHubFault::Answer(403, vec![], "Not yours"));
    rig.server.clock.advance(30_001);
    eventually("GitHub was asked again", async || rig.show().await["error"] == "GitHub answered 403: Not yours").await;
    let (first, second) = (rig.claimed("first").await, rig.claimed("second").await);
    let taken = (&first["runners"], &second["runners"]);
    assert_eq!(taken, (&json!([]), &json!([])), "nobody takes what would come to nothing");
    rig.server.clock.advance(30_001);
    for run in ["first", "second"] {
        rig.registering(&mut agents, run).await;
    }
    eventually("that is over", async || rig.show().await["error"] == json!(null)).await;
    assert_eq!(rig.fake.terminated(), [""; 0]);
}

async fn a_pool_that_leaves_github_is_held_no_longer(on: On) {
    let (rig, github, mut agents) = warm(on, 2).await;
    rig.claims("first", 1).await;
    let place = rig.registering(&mut agents, "first").await;
    let agent = agents.remove(place);
    github.next(GitHubFault::Answer(401, vec![], "Bad credentials"));
    assert_eq!(agent.asks(&rig, "first").await.refusal(), "502 github_failed");
    rig.claims("second", 1).await;
    let left = rig.server.call("PATCH", "/api/v1/pools/ci", r#"{"options": {}}"#).await;
    assert_eq!(left.status, 200, "{left:?}");
    rig.server.clock.advance(30_001);
    rig.registering(&mut agents, "first").await;
}

async fn an_old_server_gives_out_tokens(on: On) {
    let (rig, github) = start(on).await;
    github.is_old();
    rig.pool(json!({"max_size": 1, "options": {"github.organization": "acme"}})).await;
    rig.claims("run", 1).await;
    eventually("a machine is made", async || rig.fake.machines().len() == 1).await;
    let mut agent = rig.joined().await.remove(0);
    agent.says(&rig, "UD_OK", None).await;
    agent.hears(&rig, "register").await;
    let made = agent.asks(&rig, "run").await.json();
    assert_eq!((&made["method"], &made["token"]), (&json!("token"), &json!("AREGISTRATIONTOKEN")), "{made}");
    assert_eq!(made["url"], format!("{}/acme", github.url));
    // What config.sh makes with it is removed like any other.
    github.add("orgs/acme", made["name"].as_str().unwrap(), false);
    agent.takes_back(&rig).await;
    assert_eq!(github.runners(), []);
    assert!(
        github.calls().iter().all(|call| call.contains("/api/v3/orgs/acme/actions/runners")),
        "{:?}",
        github.calls()
    );
}

async fn what_fell_leaves_no_runner_at_github(on: On) {
    let (rig, github, mut agent) = claimed(on).await;
    agent.asks(&rig, "run").await;
    let name = github.runners()[0].name.clone();
    let prefix = name.strip_suffix(&agent.id).unwrap().to_owned();
    // Its machine ends without a word.
    rig.server.call("DELETE", &format!("/api/v1/pools/ci/runners/{}", agent.id), "").await;
    agent.hears(&rig, "end").await;
    eventually("it is removed", async || github.runners().iter().all(|runner| runner.name != name)).await;

    // Somebody else's runners, one of ours that nobody has any more, and one that still works, by what GitHub knows.
    for (name, busy) in [("their-own", false), ("baton-0000000000-1-x", false)] {
        github.add(REPOSITORY, name, busy);
    }
    github.add(REPOSITORY, &format!("{prefix}b5a3ab4b-5d0e-4e0d-9d2e-6f0f3f0c1a11"), false);
    let busy = github.add(REPOSITORY, &format!("{prefix}c5a3ab4b-5d0e-4e0d-9d2e-6f0f3f0c1a11"), true);
    rig.server.clock.advance(600_000);
    let foreign = ["their-own", "baton-0000000000-1-x"];
    eventually("ours is removed", async || {
        let left: Vec<_> = github.runners().into_iter().filter(|it| !foreign.contains(&it.name.as_str())).collect();
        left.len() == 1 && left[0].id == busy
    })
    .await;
    assert_eq!(github.runners().len(), 3);
}

async fn what_a_pool_at_github_needs_is_said_when_it_is_made(on: On) {
    let (rig, _) = start(on).await;
    let make = async |rig: &Rig, options: Value| {
        let wanted = json!({"name": "x", "provider": "fake", "options": options}).to_string();
        rig.server.call("POST", "/api/v1/pools", wanted).await
    };
    for wrong in [
        json!({"github.repository": "acme"}),
        json!({"github.repository": "acme/shop", "github.organization": "acme"}),
        json!({"github.repository": "acme/shop", "agent.register_hook": "true"}),
        json!({"github.token": "x"}),
    ] {
        assert_eq!(make(&rig, wrong.clone()).await.refusal(), "422 invalid", "{wrong}");
    }
    let part = json!({"name": "part", "scopes": ["admin"], "namespace": "part"}).to_string();
    let key = rig.server.call("POST", "/api/v1/keys", part).await.json()["key"].as_str().unwrap().to_owned();
    let wanted =
        json!({"name": "x", "namespace": "part", "provider": "fake", "options": {"github.organization": "acme"}});
    let request = rig.server.request("POST", "/api/v1/pools").header("x-api-key", key);
    assert_eq!(rig.server.send(request, wanted.to_string()).await.refusal(), "403 forbidden");
    let without = Rig::start(on).await;
    let refused = make(&without, json!({"github.organization": "acme"})).await;
    assert!(refused.json()["error"].as_str().unwrap().contains("github_token_file"), "{refused:?}");
    let hooks = make(&without, json!({"agent.register_hook": "true"})).await;
    assert_eq!(hooks.status, 201);
}

on_both!(
    a_claimed_machine_becomes_a_runner_whose_only_label_is_the_run,
    what_passes_by_itself_is_tried_again,
    a_claim_says_what_github_said,
    trouble_at_github_costs_no_machine,
    a_name_that_github_does_not_let_go_of_costs_its_machine_alone,
    while_github_refuses_no_machine_is_thrown_away,
    a_pool_that_leaves_github_is_held_no_longer,
    an_old_server_gives_out_tokens,
    what_fell_leaves_no_runner_at_github,
    what_a_pool_at_github_needs_is_said_when_it_is_made,
);
