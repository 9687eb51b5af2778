//! Whether the agents of a pool will find a server under the address that they are given.

use std::time::Duration;

use baton_core::pools::{OrderId, PoolSpec};
use baton_core::token;
use baton_proto::Problem;

use crate::providers::AgentPlace;
use crate::{App, Error};

/// How long the address may take to answer.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Most of an answer that is read.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Refuses a pool whose agents can reach nobody. What only looks so from here is returned as a
/// note: a server need not reach itself by the address that others know it by.
pub(super) async fn check(app: &App, spec: &PoolSpec) -> Result<Option<String>, Error> {
    let Some(provider) = app.pools.providers.get(&spec.provider) else { return Ok(None) };
    let url = app.pools.url(&app.settings);
    if app.settings.pool_url.is_none() {
        let own = app.pools.address(&app.settings);
        let is_unreachable = own.is_some_and(|ip| ip.is_loopback()) && provider.agents_run() == AgentPlace::Elsewhere;
        return match is_unreachable {
            true => Err(Error::Invalid(format!(
                "machines of the provider {} would look for this server at {url}, which is their own machine: set pool_url \
                 (BATON_POOL_URL) to the address under which they reach it",
                spec.provider
            ))),
            false => Ok(None),
        };
    }
    // Nobody gets in without a certificate, and this server has none to show.
    if app.settings.tls_client_auth == "required" {
        return Ok(None);
    }
    match (ask(app, &url).await, provider.agents_run()) {
        (Ok(()), _) => Ok(None),
        (Err(why), AgentPlace::Here) => Err(Error::Invalid(format!(
            "agents on this machine are to reach the server at {url} (pool_url), and cannot: {why}; set pool_url to its \
             address, or leave it out"
        ))),
        (Err(why), AgentPlace::Elsewhere | AgentPlace::Anywhere) => {
            let note = format!("agents are to reach the server at {url} (pool_url); from here, {why}");
            tracing::warn!(note, "a pool was made whose agents may reach nobody");
            Ok(Some(note))
        }
    }
}

/// Asks what is there to let an agent join that nobody waits for. Only a server of this
/// installation knows the token, and says that there is no such machine.
async fn ask(app: &App, url: &str) -> Result<(), String> {
    // Without one the client panics. Another part of the program may have been first, which is just
    // as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .timeout(TIMEOUT)
        .no_proxy()
        // What is sent is good for nothing, and whether agents trust the answer is for them to say.
        .tls_danger_accept_invalid_certs(true)
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| error.to_string())?;
    let order = OrderId::from_random(u128::from(app.entropy.bits()) << 64 | u128::from(app.entropy.bits()));
    let join = serde_json::json!({"machine_id": "is-anybody-there", "nonce": "0".repeat(32)}).to_string();
    let request = client
        .post(format!("{}/api/v1/runners/join", url.trim_end_matches('/')))
        .bearer_auth(token::join(&app.secrets.ring().newest().tokens, order))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(join);
    let mut answer = match request.send().await {
        Ok(answer) => answer,
        Err(error) if error.is_timeout() => return Err(format!("nobody answers within {TIMEOUT:?}")),
        Err(_) => return Err("nobody answers there".into()),
    };
    let status = answer.status().as_u16();
    let mut text = Vec::new();
    while let Ok(Some(chunk)) = answer.chunk().await {
        text.extend_from_slice(&chunk);
        if text.len() > ANSWER_BYTES_MAX {
            break;
        }
    }
    let code = serde_json::from_slice::<Problem>(&text).map(|body| body.code).unwrap_or_default();
    match (status, code.as_str()) {
        (404, "not_found") => Ok(()),
        // A server of ours in trouble, or one behind something that is: nothing is known.
        (429 | 500.., _) => Ok(()),
        _ => Err(format!("what answers there is no server of this installation (it says {status})")),
    }
}
