//! Waiting for the end of something while the server may come and go.

use std::time::Duration;

use baton::ClientError;
use tokio::time::{Instant, sleep};

use crate::exit::Exit;

/// How long one question waits on the server.
pub const WAIT: Duration = Duration::from_secs(30);
/// How long a server that does not answer is asked again.
const UNREACHABLE_MAX: Duration = Duration::from_secs(60);
/// Pause before it is asked again.
const PAUSE: Duration = Duration::from_secs(1);

/// Asks until the answer is about an end. A server that is away for a while is no reason to give up.
pub async fn until_ended<T>(
    ask: impl AsyncFn() -> Result<T, ClientError>,
    is_ended: impl Fn(&T) -> bool,
) -> Result<T, Exit> {
    let mut answered = Instant::now();
    loop {
        match ask().await {
            Ok(answer) if is_ended(&answer) => return Ok(answer),
            Ok(_) => answered = Instant::now(),
            Err(error) if error.is_transient() && answered.elapsed() < UNREACHABLE_MAX => {
                eprintln!("baton: {error}; still trying");
                sleep(PAUSE).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}
