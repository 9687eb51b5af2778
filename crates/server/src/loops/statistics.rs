//! Statistics: looks how much there is, writes down what was counted, and puts together what is old.

use crate::{App, Error};

/// One pass: minutes that are over go to the store.
pub(super) async fn pass(app: &App) -> Result<String, Error> {
    Ok(format!("{} minutes written", app.statistics.pass().await?))
}

/// Puts old blocks together and deletes those that are too old.
pub(super) async fn roll_up(app: &App) -> Result<String, Error> {
    let (merged, forgotten) = app.statistics.roll_up().await?;
    Ok(format!("{merged} blocks put together, {forgotten} deleted"))
}
