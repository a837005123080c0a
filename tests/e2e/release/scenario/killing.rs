//! The operator is killed at each write of a Release.

use kantor_api::Release;
use kantor_testbed::{
    proxy::Proxy,
    snapshot::{Options, Snapshot, assert_nothing_left},
};
use kube::Api;
use serde_json::Value;
use tokio::task::JoinSet;

use super::fixtures::{Objects, Others, gateway, release_fixture};
use crate::{
    killing::{Landing, Scenario, assert_crash_safe},
    release::support::ReleaseFixture,
    support::{OperatorFixture, PATIENCE, is_ready},
};

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_and_after_each_write_the_operator_ends_where_it_would_have() {
    // One of each kind that is hard.
    assert_crash_safe(&mut Box::pin(OneRelease::of(Objects::few(), &[])).await, Landing::One).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_and_after_the_writes_of_sixty_objects_the_operator_ends_where_it_would_have() {
    // What is between their making and their end is in the other scenario.
    let spared = ["edited", "renamed", "pruned"];
    assert_crash_safe(&mut Box::pin(OneRelease::of(Objects::sixty(), &spared)).await, Landing::All).await;
}

/// The phase after those of the objects.
const DELETED: &str = "deleted";

/// A Release, among others who have nothing to do with it.
struct OneRelease {
    release: ReleaseFixture,
    phases: Vec<(&'static str, Objects)>,
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
        let fixture = release_fixture().await;
        let others = Others::settle(&fixture.plane).await;
        let gateway = gateway(&fixture.plane);
        let plane_before = fixture.snapshot().await;
        let control_before =
            Snapshot::settled(&fixture.control.client, &Options::default(), PATIENCE).await.unwrap();
        let others_before = others.now(&fixture.plane).await;
        Self {
            release: fixture,
            phases: objects.phases(),
            spared: spared.to_vec(),
            others,
            _gateway: gateway,
            plane_before,
            control_before,
            others_before,
        }
    }

    /// The objects of a phase.
    fn objects(&self, phase: &str) -> Option<&Objects> {
        self.phases.iter().find(|(name, _)| *name == phase).map(|(_, objects)| objects)
    }
}

impl Scenario for OneRelease {
    fn control(&self) -> &OperatorFixture {
        &self.release.control
    }

    fn control_mut(&mut self) -> &mut OperatorFixture {
        &mut self.release.control
    }

    fn planes(&self) -> Vec<(&'static str, &Proxy)> {
        vec![("plane", &self.release.plane.proxy)]
    }

    fn phases(&self) -> Vec<&'static str> {
        self.phases.iter().map(|(name, _)| *name).chain([DELETED]).collect()
    }

    fn is_killed_in(&self, phase: &str) -> bool {
        !self.spared.contains(&phase)
    }

    async fn act(&self, phase: &str) {
        match self.objects(phase) {
            None => self.release.ask_to_delete("story").await,
            Some(objects) if phase == self.phases[0].0 => {
                self.release.create("story", &objects.resources()).await;
            }
            Some(objects) => self.release.edit("story", &objects.resources()).await,
        }
    }

    async fn is_over(&self, phase: &str) -> bool {
        let api: Api<Release> = Api::namespaced(self.release.control.client.clone(), "acme");
        match (phase, api.get_opt("story").await.unwrap()) {
            (DELETED, found) => found.is_none(),
            (_, found) => found.is_some_and(|release| {
                is_ready(&release) && release.status.as_ref().is_some_and(|status| status.removing.is_empty())
            }),
        }
    }

    /// The objects of the Release as they are.
    async fn state(&self, phase: &str) -> Vec<Value> {
        let Some(objects) = self.objects(phase) else { return vec![] };
        let release = self.release.ready("story").await;
        let of_release = release.metadata.uid.unwrap();
        let mut state = vec![];
        for (kind, namespace, name) in objects.places() {
            let object = self.release.plane.get(&kind, &namespace, &name).await.unwrap();
            state.push(lasting(&kind, &object, &of_release));
        }
        state
    }

    async fn nothing_left(&self) {
        self.release.nothing_left(&self.plane_before).await;
        assert_nothing_left(&self.control_before, &self.release.control.client, PATIENCE).await;
        assert_eq!(self.others.now(&self.release.plane).await, self.others_before);
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
