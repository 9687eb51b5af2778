//! The scheduler: starts the runs of schedules whose time has come. Every server does; of several the store lets one carry out each fire.
//!
//! A bell rings when the next fire is due, as far as this server knows. What others have made or changed since is found by a look now and then.

use baton_core::Millis;

use crate::{App, Error, service};

/// Looks in one pass, so that a pass ends.
const ROUNDS_MAX: usize = 100;

/// One pass.
pub(super) async fn pass(app: &App) -> Result<String, Error> {
    let (batch, most) = (app.settings.schedule_batch, app.settings.schedule_runs_max);
    let (mut carried_out, mut started) = (0, 0);
    for _ in 0..ROUNDS_MAX {
        let found = app.store.due_schedules(batch).await?;
        let before = carried_out;
        for schedule in &found.due {
            if started >= most {
                break;
            }
            match service::schedules::fire::one(app, schedule, found.now, most - started).await {
                Ok(new) => {
                    started += new;
                    carried_out += 1;
                }
                Err(error @ (Error::Unavailable | Error::DiskFull)) => return Err(error),
                // One schedule in trouble must not keep the others waiting.
                Err(error) => tracing::error!(schedule = schedule.id, %error, "a schedule could not be carried out"),
            }
        }
        // Whatever was carried out has a next time of its own, which another look finds.
        if carried_out == before || started >= most {
            // Nobody tells when the run ends that a fire waits for.
            let look_again = found.is_waiting.then(|| found.now + app.settings.schedule_every_ms as Millis);
            if let Some(next_at) = found.next_at.into_iter().chain(look_again).min() {
                app.schedules.ring_at(next_at, found.now);
            }
            break;
        }
    }
    Ok(format!("{carried_out} schedules were due, {started} runs started"))
}
