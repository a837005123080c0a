//! How long to wait until something is tried again that should stand for long: a watch, a connection.

use std::time::Duration;

/// What has stood for so long works: its next failure is a new one.
const STOOD: Duration = Duration::from_secs(30);

/// A server is not believed when it asks for more.
pub const LONGEST_ASKED: Duration = Duration::from_mins(5);

/// Waits that double with each failure, up to a limit, until what is tried has stood for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    last: Duration,
    next: Duration,
}

impl Backoff {
    /// Waits from `first` to `last`.
    pub const fn new(first: Duration, last: Duration) -> Self {
        Self { first, last, next: first }
    }

    /// How long to wait after a failure of what had stood for some time, when the server asks to come back later.
    pub fn after(&mut self, stood: Duration, asked: Option<Duration>) -> Duration {
        let wait = if stood >= STOOD { self.first } else { self.next };
        self.next = (wait * 2).min(self.last);
        wait.max(asked.unwrap_or_default().min(LONGEST_ASKED))
    }

    /// Something else is tried now.
    pub fn begin_anew(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn waits_grow_until_what_is_tried_has_stood_for_a_while() {
        let mut backoff = Backoff::new(SECOND, SECOND * 5);
        let waits = [0, 0, 10, 0, 0].map(|stood| backoff.after(SECOND * stood, None).as_secs());
        assert_eq!(waits, [1, 2, 4, 5, 5]);
        let waits = [30, 0, 0].map(|stood| backoff.after(SECOND * stood, None).as_secs());
        assert_eq!(waits, [1, 2, 4]);
    }

    #[test]
    fn a_server_may_ask_for_more_and_not_for_everything() {
        let mut backoff = Backoff::new(SECOND, SECOND * 5);
        assert_eq!(backoff.after(Duration::ZERO, Some(SECOND * 9)), SECOND * 9);
        assert_eq!(backoff.after(Duration::ZERO, Some(SECOND)), SECOND * 2, "and never for less");
        assert_eq!(backoff.after(Duration::ZERO, Some(Duration::MAX)), LONGEST_ASKED);
    }
}
