//! The operator is killed at each write of a Release.

use kantor_api::Release;
use kantor_testbed::{
    proxy::Proxy,
    snapshot::{Options, Snapshot, assert_nothing_left},
};
use kube::Api;
use serde_json::Value;
use tokio::task::JoinSet;

use super::cast::{Objects, Others, gateway, theatre};
use crate::{
    killing::{Landing, Story, told_twice},
    release::support::Theatre,
    support::{PATIENCE, Stage, is_ready},
};

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_and_after_each_write_the_operator_ends_where_it_would_have() {
    // One of each kind that is hard.
    told_twice(&mut Box::pin(OneRelease::of(Objects::few(), &[])).await, Landing::One).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_and_after_the_writes_of_sixty_objects_the_operator_ends_where_it_would_have() {
    // What is between their making and their end is in the other story.
    let spared = ["edited", "renamed", "pruned"];
    told_twice(&mut Box::pin(OneRelease::of(Objects::sixty(), &spared)).await, Landing::All).await;
}

/// The chapter after those of the objects.
const DELETED: &str = "deleted";

/// A Release, among others who have nothing to do with it.
struct OneRelease {
    theatre: Theatre,
    chapters: Vec<(&'static str, Objects)>,
    /// Chapters in which the operator is not killed.
    spared: Vec<&'static str>,
    others: Others,
    _gateway: JoinSet<()>,
    plane_before: Snapshot,
    control_before: Snapshot,
    others_before: Vec<Value>,
}

impl OneRelease {
    async fn of(objects: Objects, spared: &[&'static str]) -> Self {
        let theatre = theatre().await;
        let others = Others::settle(&theatre.plane).await;
        let gateway = gateway(&theatre.plane);
        let plane_before = theatre.snapshot().await;
        let control_before =
            Snapshot::settled(&theatre.stage.client, &Options::default(), PATIENCE).await.unwrap();
        let others_before = others.now(&theatre.plane).await;
        Self {
            theatre,
            chapters: objects.chapters(),
            spared: spared.to_vec(),
            others,
            _gateway: gateway,
            plane_before,
            control_before,
            others_before,
        }
    }

    /// The objects of a chapter.
    fn objects(&self, chapter: &str) -> Option<&Objects> {
        self.chapters.iter().find(|(name, _)| *name == chapter).map(|(_, objects)| objects)
    }
}

impl Story for OneRelease {
    fn stage(&self) -> &Stage {
        &self.theatre.stage
    }

    fn stage_mut(&mut self) -> &mut Stage {
        &mut self.theatre.stage
    }

    fn planes(&self) -> Vec<(&'static str, &Proxy)> {
        vec![("plane", &self.theatre.plane.proxy)]
    }

    fn chapters(&self) -> Vec<&'static str> {
        self.chapters.iter().map(|(name, _)| *name).chain([DELETED]).collect()
    }

    fn is_killed_in(&self, chapter: &str) -> bool {
        !self.spared.contains(&chapter)
    }

    async fn tell(&self, chapter: &str) {
        match self.objects(chapter) {
            None => self.theatre.ask_to_delete("story").await,
            Some(objects) if chapter == self.chapters[0].0 => {
                self.theatre.create("story", &objects.resources()).await;
            }
            Some(objects) => self.theatre.edit("story", &objects.resources()).await,
        }
    }

    async fn is_over(&self, chapter: &str) -> bool {
        let api: Api<Release> = Api::namespaced(self.theatre.stage.client.clone(), "acme");
        match (chapter, api.get_opt("story").await.unwrap()) {
            (DELETED, found) => found.is_none(),
            (_, found) => found.is_some_and(|release| {
                is_ready(&release) && release.status.as_ref().is_some_and(|status| status.removing.is_empty())
            }),
        }
    }

    /// The objects of the Release as they are.
    async fn state(&self, chapter: &str) -> Vec<Value> {
        let Some(objects) = self.objects(chapter) else { return vec![] };
        let release = self.theatre.ready("story").await;
        let of_release = release.metadata.uid.unwrap();
        let mut state = vec![];
        for (kind, namespace, name) in objects.places() {
            let object = self.theatre.plane.get(&kind, &namespace, &name).await.unwrap();
            state.push(lasting(&kind, &object, &of_release));
        }
        state
    }

    async fn nothing_left(&self) {
        self.theatre.nothing_left(&self.plane_before).await;
        assert_nothing_left(&self.control_before, &self.theatre.stage.client, PATIENCE).await;
        assert_eq!(self.others.now(&self.theatre.plane).await, self.others_before);
    }
}

/// An object without what differs from one time to the next.
fn lasting(kind: &str, object: &Value, of_release: &str) -> Value {
    let own = object["metadata"]["uid"].as_str().unwrap().to_owned();
    let text = object.to_string().replace(of_release, "release").replace(&own, "own");
    let mut object: Value = serde_json::from_str(&text).unwrap();
    let whole = object.as_object_mut().unwrap();
    whole.remove("status");
    let metadata = whole["metadata"].as_object_mut().unwrap();
    for field in ["resourceVersion", "creationTimestamp", "managedFields", "generation"] {
        metadata.remove(field);
    }
    metadata
        .get_mut("annotations")
        .and_then(Value::as_object_mut)
        .unwrap()
        .remove("openchoreo.dev/intent-hash");
    if let Some(spec) = whole.get_mut("spec").and_then(Value::as_object_mut) {
        // Given out by the server: addresses, ports, claims.
        for field in ["clusterIP", "clusterIPs", "healthCheckNodePort", "claimRef", "nodeName", "volumeName"]
        {
            spec.remove(field);
        }
        let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
            port.remove("nodePort");
        }
    }
    if kind == "v1/Pod" {
        // The name of its token's volume.
        whole.remove("spec");
    }
    object
}
