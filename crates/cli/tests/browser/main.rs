//! The dashboard as people have it: the real program, and a real browser in front of it.
//!
//! `scripts/test` installs what is needed: Chromium, its driver, and axe-core. `BROWSER_PICTURES=DIR` leaves a
//! picture of what was seen when a test failed.

mod accessible;
mod live;
mod rig;
mod runs;
mod signin;
mod two_servers;
mod work;
