//! Clients of EC2, one for each region, with limits on everything that takes time.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_ec2::Client;
use aws_sdk_ec2::config::{BehaviorVersion, Region};
use aws_smithy_http_client::tls::Provider as Tls;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use baton_server::providers::ProviderError;
use tokio::sync::OnceCell;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long one try of a call may take. Fleets of many machines are the slowest.
const ATTEMPT: Duration = Duration::from_secs(40);
/// How long a call may take with all its tries. The server gives up by its own time limit, too.
const OPERATION: Duration = Duration::from_secs(120);
/// How often a call is tried when EC2 is overloaded or does not answer.
const ATTEMPTS_MAX: u32 = 3;

/// Clients by region.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    /// Found when it is first needed: looking for credentials takes a while, and a server without such pools has no use for them.
    config: OnceCell<SdkConfig>,
    clients: Mutex<HashMap<Option<String>, Client>>,
}

impl Clients {
    pub fn with(config: SdkConfig) -> Clients {
        Clients { config: OnceCell::new_with(Some(config)), clients: Mutex::default() }
    }

    /// The client for a region; the one that the environment says where a pool says none.
    pub async fn of(&self, region: Option<&str>) -> Result<Client, ProviderError> {
        let config = self.config.get_or_init(found).await;
        let key = region.map(str::to_owned);
        let mut clients = self.clients.lock().expect("nobody panics while holding it");
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        let region = region.map(|region| Region::new(region.to_owned())).or_else(|| config.region().cloned());
        let Some(region) = region else {
            let why = "no region: set the pool's option region, or AWS_REGION for the server";
            return Err(ProviderError::Misconfigured(why.into()));
        };
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(CONNECT)
            .operation_attempt_timeout(ATTEMPT)
            .operation_timeout(OPERATION)
            .build();
        let settings = aws_sdk_ec2::config::Builder::from(config)
            .region(region)
            .timeout_config(timeouts)
            .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS_MAX))
            .build();
        let client = Client::from_conf(settings);
        clients.insert(key, client.clone());
        Ok(client)
    }
}

/// What the environment, the profiles and the machine say.
async fn found() -> SdkConfig {
    // The same TLS as the rest of the server has: one less to build.
    let https = aws_smithy_http_client::Builder::new().tls_provider(Tls::Rustls(CryptoMode::Ring)).build_https();
    aws_config::defaults(BehaviorVersion::latest()).http_client(https).load().await
}
