//! Waiting for a condition, with a deadline and a useful last word.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

/// What one look found.
#[derive(Debug)]
pub enum Seen<T> {
    /// The condition holds.
    Done(T),
    /// Not yet, and what was seen instead.
    NotYet(String),
}

/// Looks again and again until `look` says [`Seen::Done`], fails, or `limit` has passed.
///
/// A look that hangs counts as "not yet": it is cut off at the deadline.
pub async fn until<T, F>(what: &str, limit: Duration, mut look: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<Seen<T>>>,
{
    // What takes long may be seen a moment later: looks take time from what is looked at.
    const FIRST_PAUSE: Duration = Duration::from_millis(20);
    const LAST_PAUSE: Duration = Duration::from_millis(250);
    let start = Instant::now();
    let mut pause = FIRST_PAUSE;
    let mut last = "nothing: the first look did not end".to_owned();
    while let Some(left) = limit.checked_sub(start.elapsed()) {
        match tokio::time::timeout(left, look()).await {
            Ok(Ok(Seen::Done(value))) => return Ok(value),
            Ok(Ok(Seen::NotYet(state))) => last = state,
            Ok(Err(error)) => return Err(error.context(format!("while waiting until {what}"))),
            Err(_) => break,
        }
        tokio::time::sleep(pause).await;
        pause = pause.mul_f64(1.2).min(LAST_PAUSE);
    }
    bail!("waited {} s until {what}; last seen: {last}", limit.as_secs())
}
