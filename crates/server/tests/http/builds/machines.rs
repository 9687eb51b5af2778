//! Virtual machines: a password from the job, a token for it, and what they may do until the lease is over.

use serde_json::{Value, json};

use super::rig::{Builder, text};
use crate::harness::{On, Server, on_both};

on_both!(
    a_machine_makes_itself_known_once_and_builds,
    a_password_is_good_for_ten_minutes,
    a_machine_token_dies_with_the_lease,
    measurements_are_kept,
    a_machine_keeps_its_builders_lease,
);

async fn admitted(server: &Server) -> (String, Builder, String) {
    let (id, _) = server.submit_build().await;
    let mut builder = server.builder("host").await;
    let job = builder.poll(server).await;
    let answer = authenticate(server, &id, &text(&job["otp"])).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.json()["expires_at"].is_string());
    (id, builder, text(&answer.json()["vm_token"]))
}

async fn authenticate(server: &Server, id: &str, otp: &str) -> crate::harness::Answer {
    server.post_with(&format!("/api/builds/{id}/authenticate"), &[], json!({"otp": otp})).await
}

async fn a_machine_makes_itself_known_once_and_builds(on: On) {
    let server = Server::start(on).await;
    let (id, _) = server.submit_build().await;
    let mut builder = server.builder("host").await;
    let otp = text(&builder.poll(&server).await["otp"]);
    assert_eq!(authenticate(&server, &id, "bo_1_wrong").await.refusal(), "403 bad_credential");
    let vm = text(&authenticate(&server, &id, &otp).await.json()["vm_token"]);
    assert_eq!(authenticate(&server, &id, &otp).await.refusal(), "403 bad_credential", "it is used up");
    let token = [("x-vm-token", vm.as_str())];
    let path = |verb: &str| format!("/api/builds/{id}/{verb}");
    let status = async || server.get_with(&path("vm-status"), &builder.headers()).await.json();
    assert_eq!(status().await["vm_ready"], false);
    assert_eq!(server.post_with(&path("vm-ready"), &token, json!({})).await.status, 200);
    assert_eq!(
        (status().await["vm_ready"].clone(), server.build_status(&id).await),
        (json!(true), "building".to_owned())
    );
    assert_eq!(&server.get_with(&path("source"), &token).await.body[..], super::rig::SOURCE);
    assert_eq!(server.post_with(&path("heartbeat"), &token, json!({})).await.status, 200);
    let lines = json!({"logs": [{"level": "warn", "message": "hot"}]});
    assert_eq!(server.post_with(&path("logs"), &token, lines).await.status, 200);
    let request = server.request("POST", &path("artifact?name=app.ipa")).header("x-vm-token", &vm);
    assert_eq!(server.send(request, &b"an app"[..]).await.status, 200);
    assert_eq!(server.build_status(&id).await, "completed");
    assert_eq!(&server.call("GET", &path("download"), "").await.body[..], b"an app");
    // The host may still say so, too.
    assert_eq!(builder.upload(&server, &id, b"an app").await.status, 200);
}

async fn a_password_is_good_for_ten_minutes(on: On) {
    let server = Server::with(on, |settings| settings.build_heartbeat_timeout_ms = 3_600_000).await;
    let (id, _) = server.submit_build().await;
    let mut builder = server.builder("host").await;
    let otp = text(&builder.poll(&server).await["otp"]);
    server.clock.advance(600_001);
    assert_eq!(authenticate(&server, &id, &otp).await.refusal(), "403 bad_credential");
    assert_eq!(authenticate(&server, "nonsense", &otp).await.refusal(), "404 not_found");
}

async fn a_machine_token_dies_with_the_lease(on: On) {
    let server = Server::start(on).await;
    let (id, builder, vm) = admitted(&server).await;
    server.post_with("/api/workers/abandon", &builder.headers(), json!({"build_id": id})).await;
    let token = [("x-vm-token", vm.as_str())];
    for verb in ["vm-ready", "heartbeat"] {
        let answer = server.post_with(&format!("/api/builds/{id}/{verb}"), &token, json!({})).await;
        assert_eq!(answer.refusal(), "409 lease_lost", "{verb}");
    }
    let line = json!({"message": "still here"});
    assert_eq!(server.post_with(&format!("/api/builds/{id}/logs"), &token, line).await.refusal(), "409 lease_lost");
    let before = server.stored_files();
    let request = server.request("POST", &format!("/api/builds/{id}/artifact")).header("x-vm-token", &vm);
    assert_eq!(server.send(request, &b"late"[..]).await.refusal(), "409 lease_lost");
    assert_eq!(server.stored_files(), before);
    assert_eq!(server.get_with(&format!("/api/builds/{id}/source"), &token).await.refusal(), "409 lease_lost");
    let other = server.submit_build().await.0;
    assert_eq!(server.get_with(&format!("/api/builds/{other}/source"), &token).await.refusal(), "403 bad_credential");
}

async fn measurements_are_kept(on: On) {
    let server = Server::start(on).await;
    let (id, _, vm) = admitted(&server).await;
    let path = format!("/api/builds/{id}/telemetry");
    for cpu in [0.25, 0.5] {
        let said = json!({"cpu": cpu, "memory": 0.75});
        assert_eq!(server.post_with(&path, &[("x-vm-token", &vm)], said).await.status, 200);
    }
    let kept = server.call("GET", &path, "").await.json();
    let of =
        |name: &str| kept["telemetry"].as_array().unwrap().iter().map(|one| one[name].clone()).collect::<Vec<Value>>();
    assert_eq!((of("cpu"), of("memory")), (vec![json!(0.25), json!(0.5)], vec![json!(0.75); 2]));
}

async fn a_machine_keeps_its_builders_lease(on: On) {
    let server = Server::start(on).await;
    let (id, _, vm) = admitted(&server).await;
    for _ in 0..3 {
        server.clock.advance(server.settings.build_heartbeat_timeout_ms as i64 - 1_000);
        let beat = server.post_with(&format!("/api/builds/{id}/heartbeat"), &[("x-vm-token", &vm)], json!({})).await;
        assert_eq!(beat.status, 200, "{beat:?}");
    }
    assert_eq!(server.build_status(&id).await, "building");
}
