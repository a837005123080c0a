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
    deployment::support::{Shop, kinds},
    killing::{Landing, Story, told_twice},
    support::{PATIENCE, Stage, TestObject, condition, is_ready},
};

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_and_after_each_write_of_a_task_the_operator_ends_where_it_would_have() {
    let mut story = Box::pin(OneTask::open()).await;
    Box::pin(told_twice(&mut story, Landing::One)).await;
}

/// A Deployment of a task, with a key of the vault and its environment.
struct OneTask {
    shop: Shop,
    /// The control plane, and the plane, before the first chapter.
    before: Vec<Snapshot>,
}

impl OneTask {
    async fn open() -> Self {
        let shop = Shop::empty().await;
        shop.register("plane", &shop.plane).await;
        shop.project().await;
        shop.component("report", "ScheduledTask").await;
        let value = json!({"environment": "dev", "vaultKey": "secret/data/acme/token"});
        let group = json!({"configurations": [{"key": "token", "values": [value]}]});
        shop.stage.create::<ConfigurationGroup>(&object("ConfigurationGroup", "vault", group)).await;
        plane_ready(&shop.stage, "plane").await;
        shop.stage.until_ready::<Project>("acme/shop").await;
        for component in ["cart", "report"] {
            shop.stage.until_ready::<Component>(&format!("acme/{component}")).await;
            shop.stage.until_ready::<DeploymentTrack>(&format!("acme/{component}-main")).await;
        }
        // Its environment is yet to come.
        let said = |found: Option<&DeploymentPipeline>| condition(found?, "Ready").map(|_| ());
        shop.stage.until("the pipeline says how it is", "acme/default", said).await;
        shop.quiet().await;
        let mut story = Self { shop, before: vec![] };
        for client in story.clients() {
            story.before.push(Snapshot::settled(&client, &Options::default(), PATIENCE).await.unwrap());
        }
        story
    }

    /// The control plane, and the plane.
    fn clients(&self) -> [Client; 2] {
        [self.shop.stage.client.clone(), self.shop.plane.client.clone()]
    }

    async fn find<K: TestObject<Scope = k8s_openapi::NamespaceResourceScope>>(
        &self,
        name: &str,
    ) -> Option<K> {
        let api: Api<K> = Api::namespaced(self.shop.stage.client.clone(), "acme");
        api.get_opt(name).await.unwrap()
    }

    async fn turn_into(&self, type_: &str) {
        self.shop.stage.patch::<Component>("acme/report", json!({"spec": {"type": type_}})).await;
    }
}

impl Story for OneTask {
    fn stage(&self) -> &Stage {
        &self.shop.stage
    }

    fn stage_mut(&mut self) -> &mut Stage {
        &mut self.shop.stage
    }

    fn planes(&self) -> Vec<(&'static str, &Proxy)> {
        vec![("plane", &self.shop.plane.proxy)]
    }

    fn chapters(&self) -> Vec<&'static str> {
        vec!["scheduled", "run", "run anew", "deleted", "closed"]
    }

    /// The end is that of another story.
    fn is_killed_in(&self, chapter: &str) -> bool {
        chapter != "closed"
    }

    async fn tell(&self, chapter: &str) {
        let shop = &self.shop;
        match chapter {
            "scheduled" => {
                shop.stage
                    .create::<Environment>(&object("Environment", "dev", json!({"dataPlaneRef": "plane"})))
                    .await;
                // It does not run by itself while the story is told.
                let application = json!({
                    "task": {"schedule": {"cron": "0 0 1 1 *"}},
                    "envFrom": [{"configurationGroupRef": {"name": "vault"}}],
                });
                shop.artifact("report", "report", OLD_IMAGE, json!({"application": application})).await;
                shop.deploy("report", "report", "dev", json!({"deploymentArtifactRef": "report"})).await;
            }
            "run" => {
                self.turn_into("ManualTask").await;
                shop.configure("report", json!({"task": null})).await;
            }
            // What a Job runs cannot be changed: it is deleted and made anew.
            "run anew" => {
                let spec = json!({"targetArtifact": {"fromImageRef": {"tag": NEW_IMAGE}},
                    "configuration": {"application": {"envFrom": null}}});
                shop.edit_artifact("report", spec).await;
            }
            "deleted" => shop.stage.delete::<Deployment>("acme/report").await,
            _ => {
                shop.stage.delete::<DeployableArtifact>("acme/report").await;
                shop.stage.delete::<Environment>("acme/dev").await;
                self.turn_into("ScheduledTask").await;
            }
        }
    }

    async fn is_over(&self, chapter: &str) -> bool {
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
            return chapter == "closed" && self.find::<DeployableArtifact>("report").await.is_none();
        };
        let Some(deployment) = self.find::<Deployment>("report").await else { return chapter == "deleted" };
        let (image, all): (_, &[&str]) = match chapter {
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

    async fn state(&self, chapter: &str) -> Vec<Value> {
        let clients = self.clients();
        if chapter == "deleted" {
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
