//! What pages are made of: small pieces that look alike everywhere.

mod chart;
mod controls;
mod json;
mod links;
mod lists;
mod range;
mod state;
mod times;

pub use chart::{Bars, Line, Lines, Tone, bar, bars, legend, lines, spark};
pub use controls::{
    Dialog, chip, code, command, confirm, dialog, empty, hidden_csrf, hidden_namespace, icon, panel_error,
};
pub use json::json_block;
pub use links::{queue_path, runs, word};
pub use lists::{ROWS_MAX, field, filter_choice, filter_text, filters, pager, text_field};
pub use range::{chosen as chosen_range, ranges, series, ticks, total};
pub use state::{epoch, kind_icon, lease, state, state_badge, state_icon};
pub use times::{ago, clock, span};
