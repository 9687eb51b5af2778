//! `baton workflow` with payloads that are too large for a row.

use baton::{Context, Worker, WorkflowError};

use crate::commands::Person;
use crate::on_both_stores;
use crate::site::{API_KEY, Store};

const MIB: usize = 1 << 20;

async fn twice(ctx: Context, text: String) -> Result<String, WorkflowError> {
    ctx.step("repeat", || async { Ok(text.repeat(2)) }).await
}

async fn a_large_file_goes_in_and_a_larger_result_comes_out(store: Store) {
    let person = Person::new(store).await;
    let mut worker = Worker::builder(person.site.server.url(), "orders").api_key(API_KEY).build().await.unwrap();
    worker.register("twice", twice);
    let working = tokio::spawn(async { worker.run_until(std::future::pending()).await.unwrap() });
    std::fs::write(person.site.home.path().join("large.json"), format!("\"{}\"", "x".repeat(10 * MIB))).unwrap();
    let start = ["workflow", "start", "twice", "-q", "orders", "--input", "@large.json"];
    let run = person.baton(&start).await.ok();
    let result = person.baton(&["workflow", "result", &run]).await.ok();
    assert!(result == format!("\"{}\"", "x".repeat(20 * MIB)), "{} bytes came", result.len());
    let whole = person.json(&["workflow", "get", &run]).await;
    assert_eq!(whole["input"].as_str().unwrap().len(), 10 * MIB);
    let steps = person.json(&["workflow", "steps", &run]).await;
    assert_eq!(steps["steps"][0]["output_bytes"], 20 * MIB + 2);
    let table = person.baton(&["workflow", "steps", &run]).await.ok();
    assert!(table.contains("20971522 bytes"), "{table}");
    // Beyond the limit, which is said.
    std::fs::write(person.site.home.path().join("large.json"), format!("\"{}\"", "x".repeat(33 * MIB))).unwrap();
    let said = person.baton(&start).await;
    assert!(said.code == 4 && said.err.contains("bytes allowed"), "{said:?}");
    working.abort();
}

on_both_stores!(a_large_file_goes_in_and_a_larger_result_comes_out);
