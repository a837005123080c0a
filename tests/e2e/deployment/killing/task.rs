//! A Deployment whose task runs by a schedule, then once, then once more with another image.

use kantor_api::{
    Component, ConfigurationGroup, DeployableArtifact, Deployment, DeploymentPipeline, DeploymentTrack,
    Environment, Project,
};
use kantor_testbed::{
    proxy::Proxy,
    snapshot::{Options, Snapshot, assert_nothing_left},
};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::{NEW_IMAGE, OLD_IMAGE, everything, nothing_owned};
use crate::{
    acme::{object, plane_ready},
    deployment::support::{DeploymentFixture, kinds},
    killing::{Landing, Scenario, assert_crash_safe},
    support::{OperatorFixture, PATIENCE, TestObject, condition, is_ready},
};

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_and_after_each_write_of_a_task_the_operator_ends_where_it_would_have() {
    let mut scenario = Box::pin(OneTask::open()).await;
    Box::pin(assert_crash_safe(&mut scenario, Landing::One)).await;
}

/// A Deployment of a task, with a key of the vault and its environment.
struct OneTask {
    deployment: DeploymentFixture,
    /// The control plane, and the plane, before the first phase.
    before: Vec<Snapshot>,
}

impl OneTask {
    async fn open() -> Self {
        let fixture = DeploymentFixture::empty().await;
        fixture.register("plane", &fixture.plane).await;
        fixture.project().await;
        fixture.component("report", "ScheduledTask").await;
        let value = json!({"environment": "dev", "vaultKey": "secret/data/acme/token"});
        let group = json!({"configurations": [{"key": "token", "values": [value]}]});
        fixture.control.create::<ConfigurationGroup>(&object("ConfigurationGroup", "vault", group)).await;
        plane_ready(&fixture.control, "plane").await;
        fixture.control.until_ready::<Project>("acme/shop").await;
        for component in ["cart", "report"] {
            fixture.control.until_ready::<Component>(&format!("acme/{component}")).await;
            fixture.control.until_ready::<DeploymentTrack>(&format!("acme/{component}-main")).await;
        }
        // Its environment is yet to come.
        let said = |found: Option<&DeploymentPipeline>| condition(found?, "Ready").map(|_| ());
        fixture.control.until("the pipeline says how it is", "acme/default", said).await;
        fixture.quiet().await;
        let mut scenario = Self { deployment: fixture, before: vec![] };
        for client in scenario.clients() {
            scenario.before.push(Snapshot::settled(&client, &Options::default(), PATIENCE).await.unwrap());
        }
        scenario
    }

    /// The control plane, and the plane.
    fn clients(&self) -> [Client; 2] {
        [self.deployment.control.client.clone(), self.deployment.plane.client.clone()]
    }

    async fn find<K: TestObject<Scope = k8s_openapi::NamespaceResourceScope>>(
        &self,
        name: &str,
    ) -> Option<K> {
        let api: Api<K> = Api::namespaced(self.deployment.control.client.clone(), "acme");
        api.get_opt(name).await.unwrap()
    }

    async fn turn_into(&self, type_: &str) {
        self.deployment.control.patch::<Component>("acme/report", json!({"spec": {"type": type_}})).await;
    }
}

impl Scenario for OneTask {
    fn control(&self) -> &OperatorFixture {
        &self.deployment.control
    }

    fn control_mut(&mut self) -> &mut OperatorFixture {
        &mut self.deployment.control
    }

    fn planes(&self) -> Vec<(&'static str, &Proxy)> {
        vec![("plane", &self.deployment.plane.proxy)]
    }

    fn phases(&self) -> Vec<&'static str> {
        vec!["scheduled", "run", "run anew", "deleted", "closed"]
    }

    /// The end is that of another scenario.
    fn is_killed_in(&self, phase: &str) -> bool {
        phase != "closed"
    }

    async fn act(&self, phase: &str) {
        let fixture = &self.deployment;
        match phase {
            "scheduled" => {
                fixture
                    .control
                    .create::<Environment>(&object("Environment", "dev", json!({"dataPlaneRef": "plane"})))
                    .await;
                // It does not run by itself while the scenario runs.
                let application = json!({
                    "task": {"schedule": {"cron": "0 0 1 1 *"}},
                    "envFrom": [{"configurationGroupRef": {"name": "vault"}}],
                });
                fixture.artifact("report", "report", OLD_IMAGE, json!({"application": application})).await;
                fixture.deploy("report", "report", "dev", json!({"deploymentArtifactRef": "report"})).await;
            }
            "run" => {
                self.turn_into("ManualTask").await;
                fixture.configure("report", json!({"task": null})).await;
            }
            // What a Job runs cannot be changed: it is deleted and made anew.
            "run anew" => {
                let spec = json!({"targetArtifact": {"fromImageRef": {"tag": NEW_IMAGE}},
                    "configuration": {"application": {"envFrom": null}}});
                fixture.edit_artifact("report", spec).await;
            }
            "deleted" => fixture.control.delete::<Deployment>("acme/report").await,
            _ => {
                fixture.control.delete::<DeployableArtifact>("acme/report").await;
                fixture.control.delete::<Environment>("acme/dev").await;
                self.turn_into("ScheduledTask").await;
            }
        }
    }

    async fn is_over(&self, phase: &str) -> bool {
        let component = self.find::<Component>("report").await.unwrap();
        let observed = component.status.as_ref().and_then(|status| status.observed_generation);
        if !is_ready(&component) || observed != component.metadata.generation {
            return false;
        }
        let environment = self.find::<Environment>("dev").await;
        // It says whether the environment is there.
        let pipeline = self.find::<DeploymentPipeline>("default").await.unwrap();
        let is_found = condition(&pipeline, "Ready").is_some_and(|(status, ..)| status == "True");
        if is_found != environment.is_some() {
            return false;
        }
        let Some(environment) = environment else {
            return phase == "closed" && self.find::<DeployableArtifact>("report").await.is_none();
        };
        let Some(deployment) = self.find::<Deployment>("report").await else { return phase == "deleted" };
        let (image, all): (_, &[&str]) = match phase {
            "scheduled" => (OLD_IMAGE, &["CronJob", "SecretProviderClass"]),
            "run" => (OLD_IMAGE, &["Job", "SecretProviderClass"]),
            "run anew" => (NEW_IMAGE, &["Job"]),
            _ => return false,
        };
        is_ready(&deployment)
            && is_ready(&environment)
            && deployment.status.as_ref().and_then(|status| status.image.as_deref()) == Some(image)
            && kinds(&deployment) == all
    }

    async fn state(&self, phase: &str) -> Vec<Value> {
        let clients = self.clients();
        if phase == "deleted" {
            nothing_owned(&clients[1..]).await;
        }
        let uid = self.find::<Deployment>("report").await.and_then(|found| found.uid());
        everything(&clients, uid.as_deref()).await
    }

    async fn nothing_left(&self) {
        for (before, client) in self.before.iter().zip(self.clients()) {
            assert_nothing_left(before, &client, PATIENCE).await;
        }
    }
}
