//! Turns for what several objects share on a plane: who comes second finds it as it shall be.

use std::{sync::Arc, time::Duration};

use moka::sync::Cache;
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::planes::PlaneKey;

/// How long turns are kept that nobody takes.
const IDLE: Duration = Duration::from_mins(1);

/// A turn per namespace and plane. Without it, the first Deployments of an environment would all make its namespace at once,
/// and all but one would be refused.
pub struct SharedTurns(Cache<(PlaneKey, String), Arc<Mutex<()>>>);

impl Default for SharedTurns {
    fn default() -> Self {
        Self(Cache::builder().time_to_idle(IDLE).build())
    }
}

impl SharedTurns {
    /// Waits for the turn of a namespace.
    pub(super) async fn take(&self, plane: &PlaneKey, namespace: &str) -> OwnedMutexGuard<()> {
        let turn = self.0.get_with((plane.clone(), namespace.to_owned()), Arc::default);
        turn.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_has_a_turn_at_a_time_and_others_of_other_namespaces_too() {
        let turns = SharedTurns::default();
        let plane = PlaneKey { namespace: "acme".to_owned(), name: "eu".to_owned() };
        let first = turns.take(&plane, "a").await;
        let _other = turns.take(&plane, "b").await;
        let second = turns.take(&plane, "a");
        tokio::pin!(second);
        assert!(futures::poll!(&mut second).is_pending());
        drop(first);
        second.await;
    }
}
