//! A build from a repository, and a builder that has nothing but a key.

use serde_json::json;

use super::yard::{Submitted, Yard};
use crate::wire::Request;

pub async fn submit(yard: &mut Yard) -> Submitted {
    let key = format!("story-{}", yard.story());
    let submit = Request::post("/api/v1/builds").header("idempotency-key", key).json(&json!({
        "project_slug": "shop", "version": "1.0", "ref": "main",
        "source_url": "https://git.example/shop.git", "docker_image": "rust:1",
    }));
    let submitted = yard.ask(&submit).await;
    assert_eq!(submitted.status, 201, "{submitted:?}");
    Submitted { id: submitted.text("id"), source: vec![] }
}

pub async fn build(yard: &mut Yard, Submitted { id, .. }: Submitted) {
    loop {
        // Nobody can ask again for a build whose answer was lost: it comes back when its lease is over.
        let polled = yard.ask(&Request::get("/api/v1/builds/pending")).await;
        if polled.status == 204 {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            continue;
        }
        assert!(polled.status == 200 && polled.text("id") == id, "{polled:?}");
        let result = json!({"job_id": id, "status": "success", "duration": 1, "logs": "compiling\ndone\n"});
        let told = yard.ask(&Request::post(&format!("/api/v1/builds/{id}/result")).json(&result)).await;
        match told.status {
            200 => break,
            // Its first answer was lost, or another one may have it: the build knows.
            409 => {
                let build = yard.ask(&Request::get(&format!("/api/builds/{id}/status"))).await;
                if build.text("status") == "completed" {
                    break;
                }
            }
            _ => panic!("{told:?}"),
        }
    }
    yard.expect(id, vec![]);
}
