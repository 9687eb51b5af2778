//! Where a webhook may call: what its host resolves to, and where it is sent on to.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use baton_server::webhooks::HostResolver;

use super::receiver::{Receiver, attempted, made, server, webhook};
use crate::harness::{On, Server, on_both, refusal};

on_both!(
    a_host_that_becomes_private_is_not_called,
    the_address_that_was_checked_is_the_one_that_is_called,
    a_redirect_is_not_followed,
);

/// Gives one answer after the other, and the last one from then on.
#[derive(Debug)]
struct ScriptedResolver {
    answers: Vec<IpAddr>,
    asked: AtomicUsize,
}

#[async_trait]
impl HostResolver for ScriptedResolver {
    async fn addresses(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(vec![self.answers[asked.min(self.answers.len() - 1)]])
    }
}

fn resolver(answers: &[&str]) -> Arc<ScriptedResolver> {
    let answers = answers.iter().map(|answer| answer.parse().unwrap()).collect();
    Arc::new(ScriptedResolver { answers, asked: AtomicUsize::new(0) })
}

async fn a_host_that_becomes_private_is_not_called(on: On) {
    let (server, receiver) = (Server::start(on).await, Receiver::start().await);
    let resolver = resolver(&["8.8.8.8", "127.0.0.1"]);
    server.app.webhooks.use_resolver(resolver.clone());
    let url = format!("https://rebound.example:{}/", receiver.address.port());
    let made = server.client.create_webhook(&webhook("ci", &url, &["run.submitted"])).await.unwrap();
    server.submit().await;
    let delivery = attempted(&server, &made.id, 1).await;
    let error = delivery.attempts[0].error.clone().unwrap();
    assert!(error.contains("no public address") && !error.contains("127.0.0.1"), "{error}");
    assert_eq!((receiver.calls().len(), delivery.state.as_str()), (0, "waiting"));
    assert_eq!(resolver.asked.load(Ordering::Relaxed), 2, "once when it was made, once for the attempt");
    let refused = server.client.create_webhook(&webhook("again", &url, &[])).await;
    assert_eq!(refusal(refused), "422 invalid");
}

async fn the_address_that_was_checked_is_the_one_that_is_called(on: On) {
    let server = Server::with(on, |settings| settings.webhook_allow = "hooks.internal".into()).await;
    let receiver = Receiver::start().await;
    // Were it asked again between check and call, the call would go to an address where nobody is.
    let resolver = resolver(&["127.0.0.1", "127.0.0.1", "192.0.2.1"]);
    server.app.webhooks.use_resolver(resolver.clone());
    let url = format!("http://hooks.internal:{}/hook", receiver.address.port());
    let made = server.client.create_webhook(&webhook("ci", &url, &["run.submitted"])).await.unwrap();
    server.submit().await;
    let call = receiver.called(1).await.remove(0);
    assert_eq!(call.header("host"), format!("hooks.internal:{}", receiver.address.port()));
    attempted(&server, &made.id, 1).await;
    assert_eq!(resolver.asked.load(Ordering::Relaxed), 2);
}

async fn a_redirect_is_not_followed(on: On) {
    let (server, receiver) = (server(on).await, Receiver::start().await);
    let elsewhere = format!("http://{}/elsewhere", receiver.address);
    receiver.answer(307, &[("location", &elsewhere)]);
    let made = made(&server, &receiver).await;
    server.submit().await;
    let delivery = attempted(&server, &made.id, 1).await;
    assert_eq!((delivery.state.as_str(), delivery.attempts[0].status), ("waiting", Some(307)));
    server.clock.advance(6_000);
    let calls = receiver.called(2).await;
    assert!(calls.iter().all(|call| call.path.starts_with("/hook")), "{calls:?}");
}
