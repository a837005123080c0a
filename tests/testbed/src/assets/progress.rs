//! What happens while binaries are built, told on the terminal.

use std::{
    io::{IsTerminal, Write, stderr},
    time::{Duration, Instant},
};

/// A line on stderr. Written directly, because a test's captured output would hide why nothing moves.
pub(crate) fn say(line: &str) {
    // Nobody listens: not a reason to stop.
    let _ = writeln!(stderr(), "kantor-testbed: {line}");
}

/// A step that may take minutes.
pub(super) struct Step {
    title: String,
    started: Instant,
    told: Instant,
    terminal: bool,
}

impl Step {
    pub(super) fn start(title: String) -> Self {
        let now = Instant::now();
        let terminal = stderr().is_terminal();
        if !terminal {
            say(&format!("{title} …"));
        }
        let step = Self { title, started: now, told: now, terminal };
        step.show("");
        step
    }

    /// Called often; tells the elapsed time each second on a terminal, each half minute in a log.
    pub(super) fn tick(&mut self) {
        let pause = if self.terminal { Duration::from_secs(1) } else { Duration::from_secs(30) };
        if self.told.elapsed() >= pause {
            self.told = Instant::now();
            let seconds = self.started.elapsed().as_secs();
            if self.terminal {
                self.show(&format!("{seconds} s"));
            } else {
                say(&format!("{}: {seconds} s", self.title));
            }
        }
    }

    pub(super) fn done(self, outcome: &str) {
        let seconds = self.started.elapsed().as_secs();
        if self.terminal {
            self.show(&format!("{outcome}, {seconds} s"));
            let _ = writeln!(stderr());
        } else {
            say(&format!("{}: {outcome}, {seconds} s", self.title));
        }
    }

    fn show(&self, state: &str) {
        if self.terminal {
            let _ = write!(stderr(), "\r\x1b[Kkantor-testbed: {} … {state}", self.title);
        }
    }
}
