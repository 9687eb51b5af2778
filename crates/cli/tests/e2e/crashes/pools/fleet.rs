//! The life of a pool whose machines are made by a script that is killed while it works, or by a server that is.

use std::os::unix::fs::PermissionsExt;

use baton::proto::{ChangePool, CreatePool, OpenClaim};
use baton_core::pools::ClaimState;

use super::ATTEMPTS;
use crate::runner_pools::ground::Ground;
use crate::site::{BATON, Store};

const POOL: &str = "fleet";
/// Where the script falls.
pub static FALLS: [&str; 9] = [
    "create.begun",
    "create.halfway",
    "create.done",
    "terminate.begun",
    "terminate.halfway",
    "terminate.done",
    "list.begun",
    "list.done",
    "create.surplus",
];
/// A cloud in a directory: each machine is an agent in a session of its own, and the same token makes the same machines. A file says where it is killed, and another that it
/// refuses; both are taken away by whoever obeys.
const SCRIPT: &str = r#"#!/bin/sh
input=$(cat)
text() { printf '%s' "$input" | sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }
fall() { if [ "$(cat FLEET/fall 2>/dev/null)" = "$1" ] && rm FLEET/fall 2>/dev/null; then kill -9 $$; fi; }
lives() { line=; read -r line <"/proc/$1/cmdline"; [ -n "$line" ]; }
machine() {
    # Whoever writes the file first is the machine, however often it is asked for.
    export BATON_URL="$(text BATON_URL)" BATON_JOIN_TOKEN="$(text BATON_JOIN_TOKEN)" BATON_MACHINE_ID="$1"
    setsid sh -c 'set -C; echo "$$ $1" >"$2" || exit; exec BATON agent --work-dir "$3"' \
        machine "$2" "FLEET/pids/$1" "FLEET/machines/$1/work" </dev/null >FLEET/log 2>&1 &
}
fall "$1.begun"
printed=
case $1 in
create)
    if rm FLEET/refuse 2>/dev/null; then echo 'no capacity' >&2; exit 1; fi
    token=$(text token)
    count=$(printf '%s' "$input" | sed -n 's/.*"count":\([0-9]*\).*/\1/p')
    [ "$(cat FLEET/fall 2>/dev/null)" != create.surplus ] || count=$((count + 1))
    number=0
    while [ "$number" -lt "$count" ]; do
        machine "$token-$number" "$token"
        printed="$printed,{\"id\":\"$token-$number\",\"token\":\"$token\"}"
        number=$((number + 1))
        fall create.halfway
    done
    fall create.surplus
    ;;
terminate)
    for id in $(printf '%s' "$input" | sed 's/.*"machines":\[\([^]]*\)\].*/\1/' | tr -d '"' | tr ',' ' '); do
        read -r pid token <"FLEET/pids/$id" || continue
        kill -9 "$pid"
        while lives "$pid"; do sleep 0.01; done
        rm -rf "FLEET/machines/$id" "FLEET/pids/$id"
        fall terminate.halfway
    done 2>/dev/null
    ;;
list)
    for id in $(ls FLEET/pids); do
        read -r pid token <"FLEET/pids/$id" || continue
        if lives "$pid"; then
            printed="$printed,{\"id\":\"$id\",\"token\":\"$token\"}"
        else
            rm -rf "FLEET/machines/$id" "FLEET/pids/$id"
        fi
    done 2>/dev/null
    ;;
esac
fall "$1.done"
printf '{"machines":[%s]}' "${printed#,}"
"#;

async fn begin(store: Store) -> (Ground, CreatePool) {
    let ground = Ground::new(store).await;
    let (script, fleet) = (ground.home.path().join("script"), ground.home.path().join("fleet"));
    let text = SCRIPT.replace("FLEET", &fleet.display().to_string()).replace("exec BATON", &format!("exec {BATON}"));
    std::fs::create_dir_all(fleet.join("pids")).expect("our own directory");
    std::fs::write(&script, text).expect("our own directory");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("our own file");
    let mut pool = CreatePool { provider: Some("command".into()), max_size: Some(6), ..CreatePool::new(POOL) };
    pool.options.insert("script".into(), "script".into());
    pool.idle_ms = Some(200);
    (ground, pool)
}

/// The server falls while it has to do with the script.
pub async fn every_point(store: Store, points: &'static [&'static str]) {
    let (mut ground, pool) = begin(store).await;
    ground.create(&pool).await;
    for point in points {
        if *point == "order.failed" {
            std::fs::write(ground.home.path().join("fleet/refuse"), "").expect("our own directory");
        }
        for attempt in 0..ATTEMPTS {
            ground.serve(Some(point)).await;
            around(&mut ground, &format!("{point}-{attempt}")).await;
            if ground.has_fallen() {
                break;
            }
        }
        assert!(ground.has_fallen(), "nobody comes to the point {point}");
    }
    ground.delete(POOL).await;
}

/// The script falls.
pub async fn every_fall(store: Store, falls: &'static [&'static str]) {
    let (mut ground, pool) = begin(store).await;
    ground.create(&pool).await;
    for fall in falls {
        let file = ground.home.path().join("fleet/fall");
        std::fs::write(&file, *fall).expect("our own directory");
        for attempt in 0..ATTEMPTS {
            around(&mut ground, &format!("{fall}-{attempt}")).await;
            if !file.exists() {
                break;
            }
        }
        assert!(!file.exists(), "nobody comes to the point {fall}");
    }
    ground.delete(POOL).await;
}

/// Two machines come, three are claimed and released, and all go.
async fn around(ground: &mut Ground, what: &str) {
    let keep = |min_idle| ChangePool { min_idle: Some(min_idle), ..ChangePool::default() };
    ground.change(POOL, keep(2)).await;
    ground.settled(POOL, 2).await;
    let claim = ground.claim(POOL, &OpenClaim::new(what, 3)).await;
    assert_eq!((claim.state, claim.runners.len()), (ClaimState::Ready, 3), "{what}: {claim:?}");
    ground.release(POOL, what).await;
    ground.change(POOL, keep(0)).await;
    ground.settled(POOL, 0).await;
}
