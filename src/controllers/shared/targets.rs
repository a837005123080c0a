//! Where an environment's objects are: its plane, if it can be used now.

use std::{sync::Arc, time::Duration};

use kantor_api::{DataPlane, Environment, common::PlaneRecord, conditions::reasons, labels::INSTANCE_ID};
use kantor_core::{hierarchy::Kind, lifecycle::Standing};
use kube::{Api, ResourceExt, api::ListParams, runtime::reflector::ObjectRef};
use tokio::time::timeout;

use super::credentials_cache::OVERDUE;
use crate::{
    apply::{WriteError, Writer},
    controllers::{
        Context,
        shared::{
            connection::{self, Reach},
            plane_namespaces::follow_namespaces,
            plane_records::record_of,
        },
    },
    planes::{Followed, Plane},
};

/// How long the API server is given to tell whether there is a DataPlane.
const ASKED: Duration = Duration::from_secs(10);

/// The plane of an environment.
pub(crate) enum Located {
    /// It can be used.
    At(Box<Place>),
    /// It is not known, or does not answer.
    Nowhere(Standing),
    /// The first attempt to connect has not ended, or its namespaces have not been listed: what was said last may still hold.
    NotYet {
        /// What is said where nothing was.
        standing: Standing,
        /// Whether that lasts for so long that it is said in any case.
        late: bool,
    },
}

/// A plane that can be used.
pub(crate) struct Place {
    /// The plane.
    pub plane: Arc<Plane>,
    /// What is recorded of it.
    pub record: PlaneRecord,
    /// All namespaces of it.
    pub namespaces: Arc<Followed>,
    /// The DataPlane.
    pub data_plane: Arc<DataPlane>,
}

/// Finds the plane of an environment.
pub(crate) fn locate(environment: &Environment, context: &Context) -> Located {
    let stores = &context.world.stores;
    let data_plane = match context.world.resolve(environment, Kind::DataPlane) {
        Ok(id) => stores.data_planes.get(&ObjectRef::new(&id.name).within(&id.namespace)),
        Err(error) => return Located::Nowhere(Standing::unresolved(&error)),
    };
    let Some(data_plane) = data_plane else {
        let name = environment.spec.data_plane_ref.clone().unwrap_or_default();
        return Located::NotYet { standing: connecting(&name), late: false };
    };
    let key = connection::key_of(&data_plane);
    match connection::reach(&key, context) {
        Reach::Connected(plane) => {
            let namespaces = follow_namespaces(&plane);
            if !namespaces.is_synced() {
                // Woken when they are, if that is soon.
                let late = context.book.is_overdue(&key);
                let standing = if late { unlisted(&key.name) } else { connecting(&key.name) };
                return Located::NotYet { standing, late };
            }
            context.book.is_settled(&key);
            let record =
                PlaneRecord { cluster_uid: Some(plane.cluster_uid.clone()), ..record_of(&data_plane) };
            Located::At(Box::new(Place { plane, record, namespaces, data_plane }))
        }
        Reach::Unreachable(why) => Located::Nowhere(Standing::Unknown {
            reason: reasons::DATA_PLANE_UNREACHABLE,
            message: format!("data plane {}: {why}", key.name),
        }),
        Reach::NotYet => Located::NotYet { standing: connecting(&key.name), late: false },
    }
}

fn connecting(plane: &str) -> Standing {
    let message = format!("data plane {plane} is not connected yet");
    Standing::Unknown { reason: reasons::DATA_PLANE_CONNECTING, message }
}

fn unlisted(plane: &str) -> Standing {
    let message = format!(
        "data plane {plane}: its namespaces could not be listed and followed for {} s: grant the plane's role to the user of \
         the credentials, or look at its API server",
        OVERDUE.as_secs()
    );
    Standing::Unknown { reason: reasons::DATA_PLANE_UNREACHABLE, message }
}

/// Why a recorded plane cannot be used.
pub(crate) enum Unreachable {
    /// Nobody will ever reach it through us: it is no longer registered.
    GivenUp,
    /// It does not answer now, and why.
    For(String),
}

/// Whether a recorded plane is registered.
pub(crate) enum Registered {
    /// It is, by this DataPlane.
    As(Arc<DataPlane>),
    /// It is not: the API server has no DataPlane of that name.
    Not,
    /// That cannot be told: why, and what to do.
    Unknown(String),
}

/// Whether a recorded plane is registered. That nothing was heard of its DataPlane says little: it may be outside of what is
/// looked after, or not be readable. So it is asked for where it would be heard of.
pub(crate) async fn registered(record: &PlaneRecord, context: &Context) -> Registered {
    let PlaneRecord { namespace, name, .. } = record;
    if let Some(data_plane) = data_plane_of(record, context) {
        return Registered::As(data_plane);
    }
    if !context.scope.covers(namespace) {
        return Registered::Unknown(format!(
            "its DataPlane would be in namespace {namespace}, which this operator does not look after: add it to \
             --watch-namespaces"
        ));
    }
    if let Some(why) = context.world.behind(Kind::DataPlane) {
        return Registered::Unknown(why);
    }
    let planes: Api<DataPlane> = Api::namespaced(context.client.clone(), namespace);
    // A list of one: the right to list is there in any case.
    let named = ListParams::default().fields(&format!("metadata.name={name}"));
    let found = match timeout(ASKED, planes.list_metadata(&named)).await {
        Ok(Ok(found)) => found.items.into_iter().next(),
        Ok(Err(error)) => return Registered::Unknown(WriteError::of(error).to_string()),
        Err(_) => return Registered::Unknown(WriteError::timed_out(ASKED).to_string()),
    };
    let Some(found) = found else { return Registered::Not };
    let instance = found.labels().get(INSTANCE_ID);
    Registered::Unknown(if instance == context.scope.instance.as_ref() {
        "its DataPlane is there and cannot be read, or not yet: the operator's log says why".to_owned()
    } else {
        format!("its DataPlane is looked after by another operator: its label {INSTANCE_ID} says by which")
    })
}

/// The plane that was recorded, if it can be used and still is the same cluster.
pub(crate) async fn reach_recorded(
    record: &PlaneRecord,
    context: &Context,
) -> Result<Arc<Plane>, Unreachable> {
    let data_plane = match registered(record, context).await {
        Registered::As(data_plane) => data_plane,
        Registered::Not => return Err(Unreachable::GivenUp),
        Registered::Unknown(why) => return Err(Unreachable::For(why)),
    };
    match connection::reach(&connection::key_of(&data_plane), context) {
        Reach::Connected(plane)
            if record.cluster_uid.as_deref().is_none_or(|uid| uid == plane.cluster_uid) =>
        {
            Ok(plane)
        }
        Reach::Connected(_) => Err(Unreachable::For("it is another cluster by now".to_owned())),
        Reach::Unreachable(why) => Err(Unreachable::For(format!("it does not answer: {why}"))),
        Reach::NotYet => Err(Unreachable::For("it is not connected yet".to_owned())),
    }
}

/// The DataPlane that was recorded, if it is known: the one of its name, or the same cluster under another one of its
/// namespace. Those of other namespaces are other organizations'.
pub(crate) fn data_plane_of(record: &PlaneRecord, context: &Context) -> Option<Arc<DataPlane>> {
    let planes = &context.world.stores.data_planes;
    let named = planes.get(&ObjectRef::new(&record.name).within(&record.namespace));
    let uid = |plane: &DataPlane| plane.status.as_ref().and_then(|status| status.cluster_uid.clone());
    let Some(recorded) = &record.cluster_uid else { return named };
    // The name may be that of another cluster by now.
    if named.as_deref().is_some_and(|named| uid(named).is_none_or(|uid| uid == *recorded)) {
        return named;
    }
    let beside = |plane: &DataPlane| plane.namespace().as_ref() == Some(&record.namespace);
    planes.find(|plane| beside(plane) && uid(plane).as_ref() == Some(recorded)).or(named)
}

/// Writes to a plane in Kantor's own name.
pub(crate) fn own_writer(plane: &Plane) -> Writer {
    Writer::to_plane(plane, None)
}
