//! Colours of states.

use std::io::IsTerminal;
use std::sync::OnceLock;

use clap::ValueEnum;

/// When states are coloured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    Always,
    Never,
}

static CHOICE: OnceLock<ColorChoice> = OnceLock::new();

/// Settles the choice for the rest of the program. Only the first call counts.
pub fn choose(choice: ColorChoice) {
    let _ = CHOICE.set(choice);
}

/// Whether the standard output gets colours.
pub fn is_wanted() -> bool {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    decide(CHOICE.get().copied().unwrap_or_default(), std::io::stdout().is_terminal(), no_color)
}

fn decide(choice: ColorChoice, is_terminal: bool, no_color: bool) -> bool {
    match choice {
        ColorChoice::Auto => is_terminal && !no_color,
        ColorChoice::Always => true,
        ColorChoice::Never => false,
    }
}

const RESET: &str = "\u{1b}[0m";

/// The text in the colour of the state that `word` names; as it is if there is none.
pub(super) fn paint(word: &str, text: &str) -> String {
    match code(word) {
        Some(code) => format!("\u{1b}[{code}m{text}{RESET}"),
        None => text.to_owned(),
    }
}

/// One colour for what states have in common, whatever they are states of.
fn code(word: &str) -> Option<&'static str> {
    match word.to_ascii_lowercase().as_str() {
        "completed" | "online" | "idle" | "ready" | "good" | "ok" => Some("32"),
        "failed" | "offline" | "revoked" | "expired" | "disabled" | "fail" => Some("31"),
        "running" | "assigned" | "building" | "claimed" => Some("36"),
        "pending" | "waiting" | "creating" | "draining" | "releasing" | "paused" | "warn" => Some("33"),
        "sleeping" => Some("35"),
        "cancelled" | "released" | "gone" | "terminating" => Some("2"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_unless_somebody_says_otherwise() {
        assert!(decide(ColorChoice::Auto, true, false));
        assert!(!decide(ColorChoice::Auto, false, false) && !decide(ColorChoice::Auto, true, true));
        assert!(decide(ColorChoice::Always, false, true), "a flag wins over the environment");
        assert!(!decide(ColorChoice::Never, true, false));
    }

    #[test]
    fn every_state_of_a_run_has_a_colour() {
        for state in baton_core::State::ALL {
            assert!(code(state.as_str()).is_some(), "{}", state.as_str());
        }
        for state in baton_core::pools::RunnerState::ALL {
            assert!(code(state.as_str()).is_some(), "{}", state.as_str());
        }
        assert_eq!(paint("FAILED", "fa…"), "\u{1b}[31mfa…\u{1b}[0m");
        assert_eq!(paint("something", "x"), "x");
    }
}
