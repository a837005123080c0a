//! Whose turn it is, of those who wait for a plane and of those whose plane cannot be used.

use std::{
    any::type_name,
    sync::Arc,
    time::{Duration, Instant},
};

use kantor_api::conditions::{self, Conditioned, reasons, types};
use kube::{
    Resource,
    runtime::reflector::{ObjectRef, Store},
};
use moka::sync::Cache;
use tokio::{
    sync::{Mutex, OwnedMutexGuard, OwnedSemaphorePermit},
    time::sleep,
};

use super::{Context, member::is_spoken_for, parents::find};
use crate::{
    core::{
        hierarchy::{Described, Kind},
        lifecycle::{self, Profile, Turn},
    },
    planes::{Plane, PlaneKey},
};

/// How long lines are kept in which nobody stands.
const IDLE: Duration = Duration::from_mins(1);
/// Most of those whose plane cannot be used have nothing to say, and need not rest from it.
const LEAST_REST: Duration = Duration::from_millis(1);
/// A write that the server does not answer says nothing of how busy it is.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// Turns of all objects whose plane cannot be used. When one fails, all that is on it has something to say; one says it at a
/// time, and as long as that takes nobody does, so that those on other planes do not wait for them.
pub struct StrandedTurns {
    /// A line per plane, and one of those of which it is not known. When a plane comes back, all who stand there leave at once, and
    /// those who have said that it was away stand there again until they have said that it is back.
    lines: Cache<Option<PlaneKey>, Arc<Mutex<()>>>,
    /// For the first of each line.
    speaking: Arc<Mutex<()>>,
}

impl Default for StrandedTurns {
    fn default() -> Self {
        Self { lines: Cache::builder().time_to_idle(IDLE).build(), speaking: Arc::default() }
    }
}

impl StrandedTurns {
    fn line(&self, plane: Option<PlaneKey>) -> Arc<Mutex<()>> {
        self.lines.get_with(plane, Arc::default)
    }

    /// Waits for a turn; nothing if the plane has come back meanwhile.
    async fn take(&self, plane: Option<PlaneKey>, is_back: impl Fn() -> bool) -> Option<Stranded> {
        let line = self.line(plane).lock_owned().await;
        if is_back() {
            return None;
        }
        let speaking = self.speaking.clone().lock_owned().await;
        (!is_back()).then(|| Stranded { since: Instant::now(), _turn: (line, speaking) })
    }
}

/// A turn among those whose plane cannot be used.
pub(super) struct Stranded {
    since: Instant,
    _turn: (OwnedMutexGuard<()>, OwnedMutexGuard<()>),
}

/// A turn on a plane, or among those whose plane cannot be used.
pub(super) enum PlaneTurn {
    OnPlane { _permit: OwnedSemaphorePermit, _line: Option<OwnedMutexGuard<()>> },
    Stranded(Stranded),
}

impl PlaneTurn {
    /// Lets the next one have its turn.
    pub(super) async fn end(self, context: &Context) {
        if let Self::Stranded(stranded) = &self {
            let worked = stranded.since.elapsed();
            if worked >= LEAST_REST {
                context.stop.run_until_cancelled(sleep(worked.min(LONGEST_REST))).await;
            }
        }
    }
}

/// Waits for the turn of `object` on the plane of the environment that it is in: what it is rendered to is in memory from then
/// on. Returns it as it is by then. Nothing if there is something else to be done about it, or it was written and has not been
/// seen: what tells of that wakes it. Nothing at the end of the process, either.
pub(super) async fn take<K>(
    object: &K,
    profile: &Profile,
    store: &Store<K>,
    context: &Context,
) -> Option<(PlaneTurn, Arc<K>)>
where
    K: Resource<DynamicType = ()> + Described + Conditioned + Clone + 'static,
{
    let turn = context.stop.run_until_cancelled(wait(object, context)).await??;
    let now = store.get(&ObjectRef::from_obj(object))?;
    let is_to_be_kept = lifecycle::turn(&*now, profile) == Turn::Keep;
    (is_to_be_kept && !context.writer.has_written_since(&*now)).then_some((turn, now))
}

async fn wait<K: Resource + Described + Conditioned>(object: &K, context: &Context) -> Option<PlaneTurn> {
    loop {
        match plane_of(object, context) {
            Ok(plane) => {
                // All that is on a plane that has come back says so: those go first who have something else to say.
                let line = if is_returning(object) {
                    Some(context.stranded.line(Some(plane.key.clone())).lock_owned().await)
                } else {
                    None
                };
                // They are never closed.
                let permit = plane.turns(type_name::<K>()).acquire_owned().await.ok()?;
                if plane_of(object, context).is_ok() {
                    return Some(PlaneTurn::OnPlane { _permit: permit, _line: line });
                }
            }
            Err(plane) => {
                let is_back = || plane_of(object, context).is_ok();
                if let Some(stranded) = context.stranded.take(plane, is_back).await {
                    return Some(PlaneTurn::Stranded(stranded));
                }
            }
        }
    }
}

/// Whether nothing is to be told of an object but that its plane has come back.
fn is_returning<K: Resource + Conditioned>(object: &K) -> bool {
    let ready = conditions::get(object.conditions(), types::READY);
    ready.is_some_and(|ready| ready.reason == reasons::DATA_PLANE_UNREACHABLE) && is_spoken_for(object)
}

/// The plane of the environment that an object is in, or, if it cannot be used, which one that would be, if that is known.
fn plane_of(object: &impl Described, context: &Context) -> Result<Arc<Plane>, Option<PlaneKey>> {
    let environment =
        find(object, Kind::Environment, &context.world.stores.environments, context).map_err(|_| None)?;
    let id = context.world.resolve(&*environment, Kind::DataPlane).map_err(|_| None)?;
    let key = PlaneKey { namespace: id.namespace, name: id.name };
    context.planes.get(&key).map_err(|_| Some(key))
}

#[cfg(test)]
mod tests {
    use futures::{future::join_all, poll};
    use kantor_api::Deployment;
    use serde_json::json;

    use super::*;

    fn plane(name: &str) -> PlaneKey {
        PlaneKey { namespace: "acme".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn who_has_something_else_to_say_does_not_stand_in_line_when_its_plane_comes_back() {
        let deployment = |generation: i64, observed: i64, reason: &str| -> Deployment {
            let ready = json!({"type": "Ready", "status": "Unknown", "reason": reason, "message": "",
                "lastTransitionTime": "2026-01-02T03:04:05Z"});
            serde_json::from_value(json!({
                "apiVersion": "openchoreo.dev/v1alpha1", "kind": "Deployment",
                "metadata": {"name": "a", "generation": generation}, "spec": {"deploymentArtifactRef": "a"},
                "status": {"observedGeneration": observed, "conditions": [ready]},
            }))
            .unwrap()
        };
        assert!(is_returning(&deployment(2, 2, reasons::DATA_PLANE_UNREACHABLE)));
        assert!(!is_returning(&deployment(3, 2, reasons::DATA_PLANE_UNREACHABLE)), "it was edited");
        assert!(!is_returning(&deployment(2, 2, reasons::DATA_PLANE_CONNECTING)));
    }

    #[tokio::test]
    async fn one_speaks_at_a_time_of_all_whose_planes_cannot_be_used() {
        let turns = StrandedTurns::default();
        let first = turns.take(Some(plane("a")), || false).await.unwrap();
        let mut others =
            [Some(plane("a")), Some(plane("b")), None].map(|plane| Box::pin(turns.take(plane, || false)));
        for other in &mut others {
            assert!(poll!(other).is_pending());
        }
        drop(first);
        let had_turns = join_all(others.map(|other| async { other.await.is_some() })).await;
        assert_eq!(had_turns, [true; 3]);
    }

    #[tokio::test]
    async fn whose_plane_comes_back_does_not_wait_for_those_of_another_plane() {
        let turns = StrandedTurns::default();
        let first = turns.take(Some(plane("a")), || false).await.unwrap();
        let is_back = std::cell::Cell::new(false);
        let mut head = Box::pin(turns.take(Some(plane("b")), || is_back.get()));
        let mut behind = Box::pin(turns.take(Some(plane("b")), || is_back.get()));
        let mut of_a = Box::pin(turns.take(Some(plane("a")), || false));
        assert!(poll!(&mut head).is_pending() && poll!(&mut behind).is_pending());
        assert!(poll!(&mut of_a).is_pending());
        is_back.set(true);
        drop(first);
        assert!(head.await.is_none());
        let second = of_a.await.unwrap();
        assert!(behind.await.is_none(), "although one of the other plane has its turn");
        drop(second);
    }
}
