//! The permit to write: an operator that leads has one for a while, and it ends by itself.

use std::{
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use http::{Method, Request};
use kube::client::Body;
use tower::{BoxError, filter::FilterLayer};

/// Times are kept as milliseconds since this moment.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Leave to write to clusters, until a moment that is moved on while the operator leads. A process that was stopped, or cut
/// off, finds it ended without anybody having to tell it.
#[derive(Debug)]
pub struct Permit(AtomicU64);

/// The permit of an operator that is the only one.
pub static ALWAYS: Permit = Permit(AtomicU64::new(u64::MAX));

impl Permit {
    /// One that has ended.
    pub const fn ended() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Lets it hold until `end`.
    pub fn hold_until(&self, end: Instant) {
        let end = end.saturating_duration_since(*START).as_millis();
        self.0.store(u64::try_from(end).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    /// Ends it.
    pub fn end(&self) {
        self.0.store(0, Ordering::SeqCst);
    }

    /// Whether it holds now.
    pub fn holds(&self) -> bool {
        Duration::from_millis(self.0.load(Ordering::SeqCst)) > START.elapsed()
    }
}

/// What is said of a write that may not be made.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("this operator does not lead, or no longer")]
pub struct NotLeading;

/// Lets reads pass, and writes while `permit` holds. It belongs next to the connection: a write that has waited for its turn
/// is looked at when its turn has come.
pub fn gate(
    permit: &'static Permit,
) -> FilterLayer<impl Fn(Request<Body>) -> Result<Request<Body>, BoxError> + Clone> {
    FilterLayer::new(move |request: Request<Body>| {
        let reads = [Method::GET, Method::HEAD].contains(request.method());
        if reads || permit.holds() { Ok(request) } else { Err(BoxError::from(NotLeading)) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_ends_by_itself() {
        let permit = Permit::ended();
        assert!(!permit.holds() && ALWAYS.holds());
        permit.hold_until(Instant::now() + Duration::from_hours(1));
        assert!(permit.holds());
        permit.hold_until(Instant::now());
        assert!(!permit.holds());
        permit.hold_until(Instant::now() + Duration::from_hours(1));
        permit.end();
        assert!(!permit.holds());
    }
}
