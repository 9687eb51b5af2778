//! Fifty claimers, twenty machines, a hundred rounds: no machine is ever claimed twice. The agents are in this process, and the server is the real one.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton::proto::{CreatePool, JoinRunner, OpenClaim, RunnerAction, RunnerOrder, SignalRunner};
use baton::{Client, ClientError};
use baton_core::pools::{ClaimState, Signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::ground::Ground;
use crate::site::Store;
use crate::wait::{eventually, until_answered};

const POOL: &str = "race";
const NAMESPACE: &str = "default";
const CLAIMERS: usize = 50;
const MACHINES: u32 = 20;
const ROUNDS: usize = 100;
/// Machines of each claim, by turns.
const COUNTS: [u32; 2] = [1, 4];
const LISTEN: Duration = Duration::from_secs(30);

/// Makes up machines, and leaves the words of the order in a file for those who play their agents.
const SCRIPT: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 1
input=$(cat)
if [ "$1" = create ]; then
    token=$(printf '%s' "$input" | sed -n 's/.*"token":"\([^"]*\)".*/\1/p')
    count=$(printf '%s' "$input" | sed -n 's/.*"count":\([0-9]*\).*/\1/p')
    seq 0 $((count - 1)) | sed "s/.*/{\"id\":\"$token-&\",\"token\":\"$token\"}/" | paste -sd, >made
    printf '%s' "$input" >draft && mv draft order
fi
printf '{"machines":[%s]}' "$(cat made 2>/dev/null)"
"#;

type Agents = JoinSet<Result<(), ClientError>>;

/// Which run each machine is for. Whoever finds it taken has found a double claim.
#[derive(Default)]
struct Taken(Mutex<HashMap<String, String>>);

impl Taken {
    fn take(&self, runner: &str, run: &str) {
        let before = self.0.lock().unwrap().insert(runner.to_owned(), run.to_owned());
        assert_eq!(before, None, "{runner} is claimed for {run}, and was not given back");
    }

    fn give_back(&self, runner: &str, run: &str) {
        let before = self.0.lock().unwrap().remove(runner);
        assert_eq!(before.as_deref(), Some(run), "{runner} is given back by {run}");
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

pub async fn no_machine_is_claimed_twice(store: Store) {
    let mut ground = Ground::new(store).await;
    let script = ground.home.path().join("script");
    std::fs::write(&script, SCRIPT).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut pool = CreatePool { min_idle: MACHINES, max_size: Some(MACHINES), ..CreatePool::new(POOL) };
    pool.provider = Some("command".into());
    pool.options.insert("script".into(), "script".into());
    ground.create(&pool).await;
    let order = ground.home.path().join("order");
    let order = eventually("the order", async || std::fs::read(&order).ok()).await;
    let order: serde_json::Value = serde_json::from_slice(&order).unwrap();
    assert_eq!(order["count"], MACHINES, "all in one");
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let (token, join) = (text(&order["token"]), text(&order["environment"]["BATON_JOIN_TOKEN"]));

    let mut agents = Agents::new();
    // Agents have no key.
    let keyless = Client::new(&ground.url(), "").unwrap();
    for number in 0..MACHINES {
        agents.spawn(agent(keyless.clone(), join.clone(), format!("{token}-{number}")));
    }
    let client = ground.client();
    for round in 0..ROUNDS {
        idle(&client, &mut agents).await;
        let (taken, count) = (Arc::new(Taken::default()), COUNTS[round % COUNTS.len()]);
        let (over, is_over) = watch::channel(false);
        let mut claimers = JoinSet::new();
        for number in 0..CLAIMERS {
            let claim = OpenClaim::new(format!("round-{round}-{number}"), count);
            claimers.spawn(claimer(client.clone(), claim, taken.clone(), is_over.clone()));
        }
        eventually("all machines are taken", async || (taken.len() == MACHINES as usize).then_some(())).await;
        over.send_replace(true);
        while let Some(ended) = claimers.join_next().await {
            ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        }
        assert_eq!(taken.len(), 0);
    }
    idle(&client, &mut agents).await;
    let ended = client.pool(NAMESPACE, POOL).await.unwrap().statistics.unwrap().ended;
    assert!(ended.is_empty(), "no machine was lost on the way: {ended:?}");
}

async fn idle(client: &Client, agents: &mut Agents) {
    let all = eventually("all machines are idle", async || {
        let pool = client.pool(NAMESPACE, POOL).await.ok()?;
        (pool.runners["idle"] == u64::from(MACHINES)).then_some(())
    });
    tokio::select! {
        () = all => {}
        Some(ended) = agents.join_next() => panic!("an agent ended: {ended:?}"),
    }
}

/// Keeps what it gets until the round is over, and gives up when it has nothing by then.
async fn claimer(client: Client, wanted: OpenClaim, taken: Arc<Taken>, mut is_over: watch::Receiver<bool>) {
    let run = wanted.run_id.as_str();
    until_answered(|| client.open_pool_claim(NAMESPACE, POOL, &wanted)).await.unwrap();
    let filled = tokio::select! {
        filled = filled(&client, run) => Some(filled),
        _ = is_over.wait_for(|is_over| *is_over) => None,
    };
    if let Some(runners) = &filled {
        assert_eq!(runners.len(), wanted.count.unwrap() as usize, "all or none");
        runners.iter().for_each(|runner| taken.take(runner, run));
        let again = client.open_pool_claim(NAMESPACE, POOL, &wanted).await.unwrap();
        let again: Vec<String> = again.runners.into_iter().map(|runner| runner.id).collect();
        assert_eq!(&again, runners, "the same run has the same machines");
        is_over.wait_for(|is_over| *is_over).await.unwrap();
        runners.iter().for_each(|runner| taken.give_back(runner, run));
    }
    until_answered(|| client.release_pool_claim(NAMESPACE, POOL, run)).await.unwrap();
}

async fn filled(client: &Client, run: &str) -> Vec<String> {
    loop {
        let claim = until_answered(|| client.wait_for_pool_claim(NAMESPACE, POOL, run, LISTEN)).await.unwrap();
        match claim.state {
            ClaimState::Waiting => {}
            ClaimState::Ready => return claim.runners.into_iter().map(|runner| runner.id).collect(),
            ClaimState::Released | ClaimState::Failed => panic!("{claim:?}"),
        }
    }
}

/// Registers and deregisters in no time, and falls when it is to register for one run while it is registered for another.
async fn agent(client: Client, join: String, machine_id: String) -> Result<(), ClientError> {
    let joining = JoinRunner { machine_id, nonce: "1".repeat(32) };
    let joined = until_answered(|| client.join_runner(&join, &joining)).await?;
    let (id, token) = (joined.runner_id.as_str(), joined.token.as_str());
    let say = async |signal: Signal, order: &RunnerOrder| {
        let said = SignalRunner { signal, epoch: order.epoch, run_id: order.run_id.clone(), detail: String::new() };
        until_answered(|| client.signal_runner(id, token, &said)).await
    };
    let working = async {
        let (mut order, mut run) = (say(Signal::Ready, &joined.order).await?.order, None);
        loop {
            let serial = order.serial.clone();
            order = match order.action {
                RunnerAction::Register => {
                    assert_eq!(run, None, "{id} is to register for {:?}", order.run_id);
                    run.clone_from(&order.run_id);
                    say(Signal::Registered, &order).await?.order
                }
                RunnerAction::Deregister => {
                    assert!(run.is_none() || run == order.run_id, "{id} is for {run:?}, and not for {order:?}");
                    run = None;
                    say(Signal::Deregistered, &order).await?.order
                }
                RunnerAction::End => return Ok(()),
                RunnerAction::Start | RunnerAction::Idle | RunnerAction::Keep => order,
            };
            if order.serial == serial {
                order = until_answered(|| client.next_runner_order(id, token, &serial, LISTEN)).await?;
            }
        }
    };
    let beating = async {
        loop {
            until_answered(|| client.beat_runner(id, token)).await?;
            tokio::time::sleep(Duration::from_millis(joined.heartbeat_ms)).await;
        }
    };
    tokio::select! {
        ended = working => ended,
        ended = beating => ended,
    }
}
