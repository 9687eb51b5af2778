//! Calls about the server itself.

use std::time::{Duration, SystemTime};

use baton_proto::v1;

use crate::client::{Call, within};
use crate::{Client, ClientError};

/// How long the server may take to say what time it is. An answer that takes longer says little.
const CLOCK_TIMEOUT: Duration = Duration::from_secs(5);

impl Client {
    /// The server's version.
    pub async fn server_version(&self) -> Result<String, ClientError> {
        let mut workflows = self.workflows_service()?;
        let answer = self.answer(Duration::ZERO, workflows.health_check(v1::HealthCheckRequest {})).await?;
        Ok(answer.version)
    }

    /// The server's clock in whole seconds, as each of its answers says. None if something between has taken it away.
    pub async fn server_clock(&self) -> Result<Option<SystemTime>, ClientError> {
        let answer = within(CLOCK_TIMEOUT, self.open(Call::get("/healthz"), None)).await?;
        let date = answer.headers().get(http::header::DATE).and_then(|date| date.to_str().ok());
        Ok(date.and_then(|date| httpdate::parse_http_date(date).ok()))
    }
}
