//! A program on a terminal that nobody sees.

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use tokio::time::{Instant, sleep};

/// How long a program may take to show something.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

/// A program on a terminal of its own, which is read and typed on by a test. The program ends with it.
pub struct Terminal {
    parser: Arc<Mutex<vt100::Parser>>,
    keys: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
}

impl Terminal {
    /// Starts a program on a terminal with so many columns and lines.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(program: &str, arguments: &[&str], environment: &[(&str, &str)], size: (u16, u16)) -> Terminal {
        let pair = native_pty_system().openpty(size_of(size)).expect("a terminal");
        let mut command = CommandBuilder::new(program);
        command.args(arguments);
        command.env("TERM", "xterm-256color");
        command.env("LANG", "C.UTF-8");
        for (name, value) in environment {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command).expect("the program starts");
        // Only the program holds its end, so that reading here ends with it.
        drop(pair.slave);
        let parser = Arc::new(Mutex::new(vt100::Parser::new(at_least_one(size.1), at_least_one(size.0), 0)));
        let keys = pair.master.take_writer().expect("the terminal takes keys");
        let mut output = pair.master.try_clone_reader().expect("the terminal can be read");
        let shown = parser.clone();
        std::thread::spawn(move || {
            let mut part = [0; 8192];
            while let Ok(length @ 1..) = output.read(&mut part) {
                locked(&shown).process(&part[..length]);
            }
        });
        Terminal { parser, keys, child, master: pair.master }
    }

    /// Types.
    ///
    /// # Panics
    /// When the terminal is gone.
    pub fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).and_then(|()| self.keys.flush()).expect("the terminal takes keys");
    }

    /// What is on the screen.
    pub fn text(&self) -> String {
        locked(&self.parser).screen().contents()
    }

    /// The screen, with colours and everything.
    pub fn screen(&self) -> vt100::Screen {
        locked(&self.parser).screen().clone()
    }

    /// Waits until the screen shows this.
    ///
    /// # Panics
    /// When it does not for too long.
    pub async fn shows(&mut self, words: &str) -> String {
        self.until(words, |screen| screen.contents().contains(words)).await
    }

    /// Waits until the screen is as it should be; `what` says how.
    ///
    /// # Panics
    /// When it is not for too long.
    pub async fn until(&mut self, what: &str, is: impl Fn(&vt100::Screen) -> bool) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let screen = self.screen();
            if is(&screen) {
                return screen.contents();
            }
            assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}\n{}", screen.contents());
            sleep(LOOK).await;
        }
    }

    /// Gives the terminal another size.
    ///
    /// # Panics
    /// When the terminal is gone.
    pub fn resize(&mut self, size: (u16, u16)) {
        locked(&self.parser).screen_mut().set_size(at_least_one(size.1), at_least_one(size.0));
        self.master.resize(size_of(size)).expect("the terminal is there");
    }

    /// How the terminal is set: what is typed is shown, and so on.
    pub fn settings(&self) -> String {
        format!("{:?}", self.master.get_termios())
    }

    /// The process that was started.
    ///
    /// # Panics
    /// When it has none.
    pub fn pid(&self) -> u32 {
        self.child.process_id().expect("a process")
    }

    /// The code that the program has ended with, if it has.
    ///
    /// # Panics
    /// When it cannot be asked.
    pub fn exit_code(&mut self) -> Option<u32> {
        self.child.try_wait().expect("our own child").map(|status| status.exit_code())
    }

    /// Waits for the end of the program, and returns its code.
    ///
    /// # Panics
    /// When it does not end for too long.
    pub async fn ended(&mut self) -> u32 {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(code) = self.exit_code() {
                return code;
            }
            assert!(Instant::now() < end, "it goes on:\n{}", self.text());
            sleep(LOOK).await;
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn size_of((columns, lines): (u16, u16)) -> PtySize {
    PtySize { rows: lines, cols: columns, pixel_width: 0, pixel_height: 0 }
}

/// No terminal has no columns.
fn at_least_one(count: u16) -> NonZeroU16 {
    NonZeroU16::new(count).unwrap_or(NonZeroU16::MIN)
}

fn locked(parser: &Mutex<vt100::Parser>) -> MutexGuard<'_, vt100::Parser> {
    parser.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
