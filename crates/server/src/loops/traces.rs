//! Sends the spans of runs whose server died before it had sent them.

use crate::{App, Error};

/// Looks at a page of them.
pub(super) async fn pass(app: &App) -> Result<String, Error> {
    if !app.traces.is_on() {
        return Ok("tracing is off".into());
    }
    let found = app.traces.pick_up().await?;
    Ok(format!("{found} runs whose spans were left"))
}
