//! The terminal: taken over, and given back however the program ends.

use std::io::{self, Stdout, Write, stdout};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::cursor::Show;
use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::{Position, Rect};
use rustix::process::{Signal, kill_current_process_group};

pub type Screen = Terminal<CrosstermBackend<Stdout>>;

/// Whether the terminal is ours at the moment.
static TAKEN: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// Gives the terminal back when it goes.
pub struct Taken;

impl Taken {
    /// Takes the terminal over: raw keys, a screen of its own. What was on it comes back at the end.
    pub fn take() -> io::Result<Taken> {
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            // A message that is written into a raw terminal cannot be read.
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                before(panic);
            }));
        });
        enable_raw_mode()?;
        TAKEN.store(true, Ordering::SeqCst);
        let taken = Taken;
        execute!(stdout(), EnterAlternateScreen, EnableBracketedPaste)?;
        Ok(taken)
    }

    /// The screen, empty.
    pub fn screen() -> io::Result<Screen> {
        Terminal::new(CrosstermBackend::new(stdout()))
    }

    /// Empties the screen, so that all of it is redrawn. `Terminal::clear` would ask the terminal where
    /// its cursor is, and the answer would come between the keys.
    pub fn redraw(screen: &mut Screen) -> io::Result<()> {
        let size = screen.size()?;
        screen.resize(Rect::from((Position::ORIGIN, size)))
    }

    /// Gives the terminal back and stops the program with everything in its job, as Ctrl-Z does. The stop may come a moment later.
    pub fn suspend() -> io::Result<()> {
        give_back();
        Ok(kill_current_process_group(Signal::TSTP)?)
    }

    /// Takes the terminal again after a stop. The shell had it meanwhile, so nothing of what was set is left.
    pub fn retake() -> io::Result<Screen> {
        let _ = disable_raw_mode();
        enable_raw_mode()?;
        TAKEN.store(true, Ordering::SeqCst);
        execute!(stdout(), EnterAlternateScreen, EnableBracketedPaste)?;
        let mut screen = Taken::screen()?;
        Taken::redraw(&mut screen)?;
        Ok(screen)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        give_back();
    }
}

/// Gives the terminal back, once. There is nobody to tell when that fails: the terminal may be gone.
pub fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(stdout(), DisableBracketedPaste, LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
        let _ = stdout().flush();
    }
}
