//! Tests of workflows: a server in the test's own process, on a clock that jumps, and workers that fall when they should.
//!
//! [`TestEnv`] is a whole Baton: the real server on a store of its own, and real workers that speak to it as they do in production. Only its clock is not real. It
//! stands still while anything is under way, and while a test waits for a workflow it jumps to whatever is due next: a month takes milliseconds.
//!
//! ```
//! use std::time::Duration;
//!
//! use baton::{Context, WorkflowError};
//! use baton_testing::TestEnv;
//!
//! async fn remind(ctx: Context, name: String) -> Result<String, WorkflowError> {
//!     ctx.sleep(Duration::from_secs(30 * 24 * 3600)).await?;
//!     ctx.step("send", || async { Ok(format!("dear {name}")) }).await
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), baton::ResultError> {
//! let env = TestEnv::start().await;
//! env.worker("reminders").register("remind", remind);
//! let sent: String = env.run("remind", &"Ada").await?;
//! assert_eq!(sent, "dear Ada");
//! # Ok(()) }
//! ```
//!
//! [`crash_after_each_step`] plays a scenario again and again, lets all workers fall at another place each time, and demands that it comes to the same.

#![warn(missing_docs)]

mod crash;
mod env;
mod site;
mod time;
mod worker;

pub use crash::crash_after_each_step;
pub use env::TestEnv;
pub use worker::TestWorker;
