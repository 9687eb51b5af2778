//! Making a client, and finding out whether there is a server.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use baton_proto::v1::HealthCheckRequest;

use crate::{Client, ClientError, Tls};

/// A client in the making; awaiting it connects.
#[must_use = "nothing is connected unless this is awaited"]
#[derive(Clone)]
pub struct Connect {
    url: String,
    api_key: Option<String>,
    namespace: Option<String>,
    tls: Option<Tls>,
}

impl fmt::Debug for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connect").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Connect {
    pub(crate) fn new(url: String) -> Connect {
        Connect { url, api_key: None, namespace: None, tls: None }
    }

    /// The API key. An empty one is not sent.
    pub fn api_key(mut self, key: impl Into<String>) -> Connect {
        self.api_key = Some(key.into());
        self
    }

    /// Which servers are believed over `https://`; what the [environment](Tls::from_environment) says unless given.
    pub fn tls(mut self, tls: Tls) -> Connect {
        self.tls = Some(tls);
        self
    }

    /// The namespace of workflows; `default` unless given.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Connect {
        self.namespace = Some(namespace.into());
        self
    }
}

impl IntoFuture for Connect {
    type Output = Result<Client, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let key = self.api_key.or_else(|| std::env::var("BATON_API_KEY").ok()).unwrap_or_default();
            let tls = self.tls.map_or_else(Tls::from_environment, Ok)?;
            let mut client = Client::new_with_tls(&self.url, &key, &tls)?;
            if let Some(namespace) = self.namespace {
                client = client.with_namespace(namespace);
            }
            let mut workflows = client.workflows_service()?;
            client.answer(Duration::ZERO, workflows.health_check(HealthCheckRequest {})).await?;
            Ok(client)
        })
    }
}
