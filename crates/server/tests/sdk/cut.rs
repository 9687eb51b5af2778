//! Streams that are cut in the middle: nothing is lost, and nothing is done twice.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton::{Context, WorkflowError};
use baton_testkit::Proxy;
use futures_util::future::join_all;

use crate::harness::{On, on_both};
use crate::site::{Site, Working, within};

on_both!(a_stream_that_is_cut_again_and_again_loses_nothing_and_doubles_nothing);

async fn a_stream_that_is_cut_again_and_again_loses_nothing_and_doubles_nothing(on: On) {
    let site = Site::start(on).await;
    let proxy = Proxy::start(site.server.address).await;
    let executed: Arc<Mutex<HashMap<(u64, u64), u32>>> = Arc::default();
    let counts = executed.clone();
    let mut worker = site.worker_at(proxy.address()).await;
    worker.register("steps", move |ctx: Context, number: u64| {
        let counts = counts.clone();
        async move {
            for step in 0..10 {
                ctx.step("step", || async {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    *counts.lock().unwrap().entry((number, step)).or_default() += 1;
                    Ok(())
                })
                .await?;
                if step == 5 {
                    ctx.sleep(Duration::from_millis(100)).await?;
                }
            }
            Ok::<_, WorkflowError>(number)
        }
    });
    let working = Working::begin(worker);
    let mut handles = Vec::new();
    for number in 0..100u64 {
        handles.push(site.begin("steps", &number).await);
    }
    let cutting = async {
        loop {
            tokio::time::sleep(Duration::from_millis(150)).await;
            proxy.cut();
            proxy.mend();
        }
    };
    let results = join_all(handles.iter().map(|handle| handle.result::<u64>()));
    let results = tokio::select! {
        results = within(results) => results,
        () = cutting => unreachable!(),
    };
    let numbers: Vec<u64> = results.into_iter().map(Result::unwrap).collect();
    assert_eq!(numbers, (0..100).collect::<Vec<_>>());
    {
        let executed = executed.lock().unwrap();
        let twice: Vec<_> = executed.iter().filter(|(_, times)| **times != 1).collect();
        assert!(executed.len() == 1_000 && twice.is_empty(), "{} steps, {twice:?}", executed.len());
    }
    working.stop().await;
}
