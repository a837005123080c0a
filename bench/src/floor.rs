//! The floor: a bare client that writes the same objects to the same kind of servers, with the same concurrency, plus the
//! finalizer of what users made and one status per resource, and does nothing else. It reads nothing, watches nothing and
//! decides nothing, and it makes no request that Kantor does without: what Kantor makes itself has its finalizer from the
//! beginning.

use std::{
    collections::HashMap,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, future::try_join_all, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{
    intent::applied_by,
    requests::Requests,
    sample,
    stand::{AT_ONCE, Ground, Stand},
};

const MANAGER: &str = "kantor";

/// A resource of the control plane as Kantor left it.
struct Resource {
    object: DynamicObject,
    finalizers: Vec<String>,
    status: Value,
}

impl Resource {
    fn of(live: &DynamicObject) -> Self {
        let mut object = applied_by(MANAGER, live);
        // The status is written on its own.
        if let Some(fields) = object.data.as_object_mut() {
            fields.remove("status");
        }
        let mut status = live.data["status"].clone();
        // What is there only once something else is: the floor has no second look.
        if let Some(fields) = status.as_object_mut() {
            fields.remove("cleaning");
        }
        Self { object, finalizers: live.finalizers().to_vec(), status }
    }

    /// One that Kantor makes itself: its finalizer comes with it.
    fn made(live: &DynamicObject) -> Self {
        let mut resource = Self::of(live);
        resource.object.metadata.finalizers = Some(std::mem::take(&mut resource.finalizers));
        resource
    }
}

/// All that belongs to one Deployment.
struct Item {
    plane: usize,
    deployment: Resource,
    endpoints: Vec<Resource>,
    claims: Vec<DynamicObject>,
    /// On the plane.
    objects: Vec<DynamicObject>,
}

/// What Kantor wrote, to be written again.
pub(crate) struct Work {
    items: Vec<Item>,
    /// Per plane: namespaces and what else Deployments share.
    shared: Vec<Vec<DynamicObject>>,
    parents: usize,
}

/// What it took.
pub(crate) struct Floor {
    pub took: Duration,
    pub control: Requests,
    pub planes: Requests,
    pub servers_cpu: f64,
}

/// Reads what Kantor wrote.
pub(crate) async fn collect(stand: &Stand) -> Result<Work> {
    let client = &stand.ground.client;
    let list = |kind: &'static str| async move {
        Ok::<_, anyhow::Error>(sample::our_api(client, kind).list(&ListParams::default()).await?.items)
    };
    let (deployments, endpoints) = (list("Deployment").await?, list("Endpoint").await?);
    let claims: Api<DynamicObject> = Api::all_with(client.clone(), &sample::our_resource("HostnameClaim"));
    let claims: HashMap<String, DynamicObject> = claims
        .list(&ListParams::default())
        .await?
        .items
        .into_iter()
        .map(|claim| (claim.name_any(), claim))
        .collect();
    let planes = stand.ground.planes.len();
    let (mut found, mut shared) = (Vec::new(), Vec::new());
    for plane in 0..planes {
        let mut objects = HashMap::new();
        for kind in ["apps/v1/Deployment", "v1/Service", "gateway.networking.k8s.io/v1/HTTPRoute"] {
            let kinds = sample::resource(kind);
            for mut object in stand.on_plane(plane, kind).await? {
                object.types = Some(kube::api::TypeMeta {
                    api_version: kinds.api_version.clone(),
                    kind: kinds.kind.clone(),
                });
                objects.insert((kinds.kind.clone(), object.name_any()), object);
            }
        }
        found.push(objects);
        shared.push(shared_on(&stand.ground.planes[plane].client).await?);
    }
    let mut items = Vec::new();
    for number in 0..stand.count {
        let (name, plane) = (sample::component(number), number % planes);
        let deployment = deployments.iter().find(|d| d.name_any() == name);
        let deployment = deployment.with_context(|| format!("no Deployment {name}"))?;
        let uid = deployment.uid().unwrap_or_default();
        let own =
            |endpoint: &&DynamicObject| endpoint.owner_references().iter().any(|owner| owner.uid == uid);
        let endpoints: Vec<&DynamicObject> = endpoints.iter().filter(own).collect();
        let statuses = [deployment].into_iter().chain(endpoints.iter().copied());
        let inventory =
            statuses.flat_map(|owner| owner.data["status"]["inventory"].as_array().into_iter().flatten());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let objects = inventory.map(|item| {
            let key = (text(&item["kind"]), text(&item["name"]));
            let object = found[plane].get(&key).with_context(|| format!("{key:?} is not on the plane"))?;
            Ok(applied_by(MANAGER, object))
        });
        let objects = objects.collect::<Result<Vec<_>>>()?;
        let names =
            endpoints.iter().flat_map(|e| e.data["status"]["claims"].as_array().into_iter().flatten());
        let claims =
            names.filter_map(|name| claims.get(name.as_str()?)).map(|claim| applied_by("", claim)).collect();
        items.push(Item {
            plane,
            deployment: Resource { object: sample::deployment(number, planes), ..Resource::of(deployment) },
            endpoints: endpoints.into_iter().map(Resource::made).collect(),
            claims,
            objects,
        });
    }
    Ok(Work { items, shared, parents: stand.count })
}

async fn shared_on(client: &Client) -> Result<Vec<DynamicObject>> {
    let params = ListParams::default().labels("managed-by=choreo-deployment-controller");
    let mut objects = Vec::new();
    for kind in ["v1/Namespace", "networking.k8s.io/v1/NetworkPolicy"] {
        let kinds = sample::resource(kind);
        for mut object in sample::all(client, kind).list(&params).await? {
            object.types = Some(kube::api::TypeMeta {
                api_version: kinds.api_version.clone(),
                kind: kinds.kind.clone(),
            });
            objects.push(applied_by(MANAGER, &object));
        }
    }
    Ok(objects)
}

/// Does the work on fresh clusters.
pub(crate) async fn run(work: &Work, project: &Path) -> Result<Floor> {
    let ground = Ground::start(project, work.shared.len()).await?;
    let namespace = Namespace {
        metadata: kube::api::ObjectMeta { name: Some(sample::ORGANIZATION.to_owned()), ..Default::default() },
        ..Namespace::default()
    };
    Api::all(ground.client.clone()).create(&PostParams::default(), &namespace).await?;
    // The same neighbours in the store.
    ground.create((0..work.parents).flat_map(sample::parts).collect()).await?;
    let before = ground.requests().await?;
    let cpu = ground.servers_cpu();

    let started = Instant::now();
    let shared = ground.planes.iter().zip(&work.shared).map(|(plane, objects)| async move {
        for object in objects {
            apply(&plane.client, object).await?;
        }
        Ok::<_, anyhow::Error>(())
    });
    try_join_all(shared).await?;
    let lanes = (0..ground.planes.len()).map(|plane| {
        let items = work.items.iter().filter(move |item| item.plane == plane);
        let ground = &ground;
        stream::iter(items.map(move |item| write(ground, item))).buffer_unordered(AT_ONCE).try_collect::<()>()
    });
    try_join_all(lanes).await?;
    let took = started.elapsed();

    let servers_cpu = ground.servers_cpu() - cpu;
    let [control, planes] = ground.requests().await?;
    let control = control.since(&before[0]).without("POST", "deployments.openchoreo.dev", work.items.len());
    Ok(Floor { took, control, planes: planes.since(&before[1]), servers_cpu })
}

/// One Deployment with all that belongs to it.
async fn write(ground: &Ground, item: &Item) -> Result<()> {
    let (client, plane) = (&ground.client, &ground.planes[item.plane].client);
    let deployment = &item.deployment;
    let api = sample::api_of(client, &deployment.object);
    api.create(&PostParams::default(), &deployment.object).await.context("create a Deployment")?;
    hold(client, deployment).await?;
    for endpoint in &item.endpoints {
        apply(client, &endpoint.object).await?;
    }
    for claim in &item.claims {
        sample::api_of(client, claim)
            .create(&PostParams::default(), claim)
            .await
            .context("create a claim")?;
    }
    try_join_all(item.objects.iter().map(|object| apply(plane, object))).await?;
    for resource in item.endpoints.iter().chain([deployment]) {
        say(client, resource).await?;
    }
    Ok(())
}

async fn apply(client: &Client, object: &DynamicObject) -> Result<()> {
    let params = PatchParams::apply(MANAGER).force();
    let applied =
        sample::api_of(client, object).patch(&object.name_any(), &params, &Patch::Apply(object)).await;
    applied.with_context(|| format!("apply {}", object.name_any())).map(drop)
}

async fn hold(client: &Client, resource: &Resource) -> Result<()> {
    let patch = json!({"metadata": {"finalizers": resource.finalizers}});
    let api = sample::api_of(client, &resource.object);
    api.patch(&resource.object.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

async fn say(client: &Client, resource: &Resource) -> Result<()> {
    let types = resource.object.types.clone().unwrap_or_default();
    let name = resource.object.name_any();
    let body = json!({"apiVersion": types.api_version, "kind": types.kind, "metadata": {"name": name},
        "status": resource.status});
    let params = PatchParams::apply(MANAGER).force();
    let api = sample::api_of(client, &resource.object);
    api.patch_status(&name, &params, &Patch::Apply(body))
        .await
        .with_context(|| format!("status of {name}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kantor_makes_itself_has_its_finalizer_from_the_beginning() {
        let live = sample::object(json!({
            "apiVersion": "openchoreo.dev/v1alpha1", "kind": "Endpoint",
            "metadata": {"name": "a", "finalizers": ["openchoreo.dev/endpoint-cleanup"]},
            "status": {"cleaning": [], "address": "x"},
        }));
        let made = Resource::made(&live);
        assert_eq!(made.object.finalizers(), live.finalizers());
        assert!(made.finalizers.is_empty());
        assert_eq!(made.status, json!({"address": "x"}));
        let of = Resource::of(&live);
        assert_eq!(of.finalizers, live.finalizers());
    }
}
