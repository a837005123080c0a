//! Lines in which those wait who want the same thing: one has its turn at a time.

use std::{hash::Hash, sync::Arc, time::Duration};

use moka::sync::Cache;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// How long a line is kept that nobody has joined: longer than anybody has a turn.
const IDLE: Duration = Duration::from_mins(10);

/// A turn, until it is dropped.
pub(crate) type Turn = OwnedMutexGuard<()>;

/// A line per key.
pub struct Lines<Key>(Cache<Key, Arc<Mutex<()>>>);

impl<Key: Eq + Hash + Send + Sync + 'static> Default for Lines<Key> {
    fn default() -> Self {
        Self(Cache::builder().time_to_idle(IDLE).build())
    }
}

impl<Key: Eq + Hash + Send + Sync + 'static> Lines<Key> {
    /// Waits for a turn.
    pub(crate) async fn take(&self, key: Key) -> Turn {
        self.0.get_with(key, Arc::default).lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_of_each_line_has_its_turn_at_a_time() {
        let lines = Lines::default();
        let first = lines.take("a").await;
        let _other = lines.take("b").await;
        let second = lines.take("a");
        tokio::pin!(second);
        assert!(futures::poll!(&mut second).is_pending());
        drop(first);
        second.await;
    }
}
