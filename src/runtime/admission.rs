//! Whose turn it is, of those who wait for a plane and of those whose plane cannot be used.

use std::{
    any::type_name,
    ops::Deref,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use kantor_api::conditions::{self, Conditioned, reasons, types};
use kantor_core::{
    hierarchy::{Described, Kind},
    lifecycle::{self, Profile, Turn},
};
use kube::{
    Resource,
    runtime::reflector::{ObjectRef, Store},
};
use tokio::{
    sync::{Mutex, OwnedSemaphorePermit},
    time::{sleep, timeout},
};

use super::{
    Runtime,
    keyed_mutex::{self, Lines},
    run::Action,
};
use crate::{
    apply::WriteError,
    planes::{Plane, PlaneKey},
    runtime::status::is_spoken_for,
};

/// Most of those whose plane cannot be used have nothing to say, and need not rest from it.
const LEAST_REST: Duration = Duration::from_millis(1);
/// A write that the server does not answer says nothing of how busy it is.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// How often one that waits looks whether there still is something to wait for.
const LOOK: Duration = Duration::from_secs(1);
/// How long those of a line wait for one that does not get on.
const LONGEST_OF_LINE: Duration = Duration::from_secs(1);

/// Turns of all objects whose plane cannot be used. When one fails, all that is on it has something to say; one says it at a
/// time, and as long as that takes nobody does, so that those on other planes do not wait for them.
#[derive(Default)]
pub struct StrandedTurns {
    /// A line per plane, and one of those of which it is not known. When a plane comes back, all who stand there leave at once, and
    /// those who have said that it was away stand there again until they have said that it is back.
    lines: Lines<Option<PlaneKey>>,
    /// For the first of each line.
    speaking: Arc<Mutex<()>>,
}

impl StrandedTurns {
    /// Waits for a turn; nothing if the plane has come back meanwhile.
    async fn take(&self, plane: Option<PlaneKey>, is_back: impl Fn() -> bool) -> Option<Stranded> {
        let line = self.lines.take(plane).await;
        if is_back() {
            return None;
        }
        let speaking = self.speaking.clone().lock_owned().await;
        (!is_back()).then(|| Stranded { since: Instant::now(), _turn: (line, speaking) })
    }
}

/// A turn among those whose plane cannot be used.
struct Stranded {
    since: Instant,
    _turn: (keyed_mutex::Turn, keyed_mutex::Turn),
}

/// A turn on a plane, or among those whose plane cannot be used.
enum PlaneTurn {
    OnPlane { _permit: OwnedSemaphorePermit, line: Option<keyed_mutex::Turn> },
    Stranded(Stranded),
}

impl PlaneTurn {
    /// Lets those behind it in its line go on.
    fn leave_line(&mut self) {
        if let Self::OnPlane { line, .. } = self {
            line.take();
        }
    }

    /// Lets the next one have its turn.
    async fn end(self, runtime: &Runtime) {
        if let Self::Stranded(stranded) = &self {
            let worked = stranded.since.elapsed();
            if worked >= LEAST_REST {
                runtime.stop.run_until_cancelled(sleep(worked.min(LONGEST_REST))).await;
            }
        }
    }
}

/// Does what is to be done about `object` when it has its turn on the plane of the environment that it is in, with the object as
/// it is by then: what it is rendered to is in memory from then on. Does nothing if there is something else to be done about it,
/// or it was written and has not been seen: what tells of that wakes it. Nothing at the end of the process, either.
pub(crate) async fn taken<K, C>(
    object: &K,
    profile: &Profile,
    store: &Store<K>,
    context: &C,
    keep: impl AsyncFnOnce(&K, &C) -> Result<Action, WriteError>,
) -> Result<Action, WriteError>
where
    K: Resource<DynamicType = ()> + Described + Conditioned + Clone + 'static,
    C: Deref<Target = Runtime>,
{
    let key = ObjectRef::from_obj(object);
    // Whatever changes an object meanwhile wakes it: it is looked at anew as soon as this ends.
    let is_in_vain = || {
        store.get(&key).is_none_or(|now| {
            lifecycle::turn(&*now, profile) != Turn::Keep || (is_returning(object) && !is_returning(&*now))
        })
    };
    let turn = context.stop.run_until_cancelled(unless(is_in_vain, wait(object, context))).await.flatten();
    let (Some(mut turn), Some(now)) = (turn, store.get(&key)) else {
        return Ok(Action::await_change());
    };
    if lifecycle::turn(&*now, profile) != Turn::Keep || context.writer.has_written_since(&*now) {
        return Ok(Action::await_change());
    }
    // Many wait for their turns: what one needs in it is set aside for those who have one.
    let mut kept = Box::pin(keep(&now, context));
    let kept = if let Ok(kept) = timeout(LONGEST_OF_LINE, &mut kept).await {
        kept
    } else {
        turn.leave_line();
        kept.await
    };
    turn.end(context).await;
    kept
}

/// What comes of `waiting`; nothing if it is in vain.
async fn unless<T>(is_in_vain: impl Fn() -> bool, waiting: impl Future<Output = Option<T>>) -> Option<T> {
    let mut waiting = pin!(waiting);
    loop {
        match timeout(LOOK, &mut waiting).await {
            Ok(turn) => return turn,
            Err(_) if is_in_vain() => return None,
            Err(_) => {}
        }
    }
}

async fn wait<K: Resource + Described + Conditioned>(object: &K, runtime: &Runtime) -> Option<PlaneTurn> {
    loop {
        match plane_of(object, runtime) {
            Ok(plane) => {
                // All that is on a plane that has come back says so: those go first who have something else to say.
                let line = if is_returning(object) {
                    Some(runtime.stranded.lines.take(Some(plane.key.clone())).await)
                } else {
                    None
                };
                let permit = plane.turn(type_name::<K>()).await;
                if plane_of(object, runtime).is_ok() {
                    return Some(PlaneTurn::OnPlane { _permit: permit, line });
                }
            }
            Err(plane) => {
                let is_back = || plane_of(object, runtime).is_ok();
                if let Some(stranded) = runtime.stranded.take(plane, is_back).await {
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
fn plane_of(object: &impl Described, runtime: &Runtime) -> Result<Arc<Plane>, Option<PlaneKey>> {
    let id = runtime.world.resolve(object, Kind::Environment).map_err(|_| None)?;
    let environments = &runtime.world.stores.environments;
    let environment = environments.get(&ObjectRef::new(&id.name).within(&id.namespace)).ok_or(None)?;
    let id = runtime.world.resolve(&*environment, Kind::DataPlane).map_err(|_| None)?;
    let key = PlaneKey { namespace: id.namespace, name: id.name };
    runtime.planes.get(&key).map_err(|_| Some(key))
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
    async fn who_waits_in_vain_does_not_wait_on() {
        assert_eq!(unless(|| true, std::future::pending::<Option<()>>()).await, None);
        assert_eq!(unless(|| true, std::future::ready(Some(1))).await, Some(1), "it need not wait");
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
