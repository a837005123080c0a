//! Everything Kantor knows of the control plane: one watch per kind, its store, and who is to be woken by a change.

mod follow;
mod sync;

use k8s_openapi::api::core::v1::Namespace;
use kantor_api::Organization;
use kube::{
    Api, Client, ResourceExt,
    core::PartialObjectMeta,
    runtime::reflector::{ObjectRef, Store},
};
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::sync::{KindState, SyncBoard};

/// The stores of the control plane's objects.
#[derive(Clone)]
pub struct World {
    /// All Organizations.
    pub organizations: Store<Organization>,
    /// Metadata of all namespaces.
    pub namespaces: Store<PartialObjectMeta<Namespace>>,
    /// How far the watches are.
    pub sync: SyncBoard,
}

/// Who is to be woken: a stream per controller.
pub struct Wakes {
    /// Organizations whose state may have changed.
    pub organizations: mpsc::UnboundedReceiver<ObjectRef<Organization>>,
}

impl World {
    /// Starts one watch per kind on `tasks`. They end with `stop`.
    pub fn start(client: &Client, tasks: &TaskTracker, stop: &CancellationToken) -> (Self, Wakes) {
        let sync = SyncBoard::default();
        let (wake_organization, organizations_woken) = mpsc::unbounded_channel();

        let wake = wake_organization.clone();
        let organizations = follow::start(
            Api::<Organization>::all(client.clone()),
            &sync,
            tasks,
            stop,
            move |organization| {
                wake.send(organization.clone()).ok();
            },
        );
        let namespaces = follow::start(
            Api::<PartialObjectMeta<Namespace>>::all(client.clone()),
            &sync,
            tasks,
            stop,
            // An organization's namespace has its name.
            move |namespace| drop(wake_organization.send(ObjectRef::new(&namespace.name))),
        );

        (Self { organizations, namespaces, sync }, Wakes { organizations: organizations_woken })
    }

    /// Metadata of the namespace `name`.
    pub fn namespace(&self, name: &str) -> Option<std::sync::Arc<PartialObjectMeta<Namespace>>> {
        self.namespaces.get(&ObjectRef::new(name)).filter(|ns| ns.name_any() == name)
    }
}
