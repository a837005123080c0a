//! The pod of a workload.

use std::collections::BTreeMap;

use kantor_api::{
    annotations,
    application::Application,
    deployable_artifact::EndpointTemplate,
    endpoint::{BackendType, EndpointType},
};
use serde_json::{Map, Value, json};

use super::{
    Problem,
    configuration::template_name,
    place::Place,
    wiring::{Wiring, invalid},
};
use crate::json::{list, map};

/// A port of the container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Port {
    pub name: String,
    pub number: i32,
    pub protocol: &'static str,
}

/// The ports that endpoints lead to, in the order of their templates: it is the order of the containers that are there
/// already.
pub(super) fn ports(templates: &[EndpointTemplate], problems: &mut Vec<Problem>) -> Vec<Port> {
    let mut ports: Vec<Port> = vec![];
    for template in templates {
        let backend = &template.spec.backend_ref;
        let Some(component) = &backend.component_ref else {
            if backend.type_ == BackendType::ComponentRef {
                let name = template_name(&template.metadata);
                problems.push(invalid(format!("endpoint template {name}: set backendRef.componentRef.port")));
            }
            continue;
        };
        let (protocol, suffix) = match template.spec.type_ {
            EndpointType::UDP => ("UDP", "udp"),
            _ => ("TCP", "tcp"),
        };
        let port = Port { name: format!("ep-{}-{suffix}", component.port), number: component.port, protocol };
        if !ports.contains(&port) {
            ports.push(port);
        }
    }
    ports
}

/// What a pod is made of.
pub(super) struct Pod<'a> {
    pub image: &'a str,
    pub application: &'a Application,
    pub ports: &'a [Port],
    pub wiring: Wiring,
    /// Secret of the namespace with which the image is pulled.
    pub pull_secret: Option<&'a str>,
    pub checksum: Option<&'a str>,
}

impl Pod<'_> {
    /// The template of a workload whose pods run all the time. They see a changed value only when they are made anew.
    pub fn serving(self, place: &Place) -> Value {
        let checksum = self.checksum;
        let mut template = self.template(place, "Always");
        // Only if they see one: a plain workload that is taken over is not restarted.
        if let Some(checksum) = checksum {
            template["metadata"]["annotations"] = json!({annotations::CONFIGURATION_CHECKSUM: checksum});
        }
        template
    }

    /// The template of a task. Each run sees the values of the day, and a run that is over has nothing to see: no
    /// checksum, which would make it another task.
    pub fn task(self, place: &Place) -> Value {
        self.template(place, "Never")
    }

    fn template(mut self, place: &Place, restart: &str) -> Value {
        let [env, mounts, volumes] = std::mem::take(&mut self.wiring).into_parts();
        let mut spec = Map::new();
        spec.insert("restartPolicy".to_owned(), restart.into());
        spec.insert("containers".to_owned(), list([self.container(env, mounts)]));
        put(&mut spec, "volumes", volumes);
        put(
            &mut spec,
            "imagePullSecrets",
            self.pull_secret.iter().map(|name| json!({"name": name})).collect(),
        );
        map([("metadata", json!({"labels": place.workload_labels})), ("spec", spec.into())])
    }

    fn container(&self, env: Vec<Value>, mounts: Vec<Value>) -> Value {
        let ports = self
            .ports
            .iter()
            .map(|port| json!({"name": port.name, "containerPort": port.number, "protocol": port.protocol}));
        let mut container = Map::new();
        container.insert("name".to_owned(), "main".into());
        container.insert("image".to_owned(), self.image.into());
        put(&mut container, "args", self.application.args.iter().map(|arg| json!(arg)).collect());
        put(&mut container, "ports", ports.collect());
        put(&mut container, "env", env);
        put(&mut container, "volumeMounts", mounts);
        if let Some(limits) = &self.application.resource_limits {
            let limits: BTreeMap<&str, &str> = [("cpu", &limits.cpu), ("memory", &limits.memory)]
                .into_iter()
                .filter_map(|(name, limit)| Some((name, limit.as_deref()?)))
                .collect();
            if !limits.is_empty() {
                container.insert("resources".to_owned(), json!({"limits": limits, "requests": limits}));
            }
        }
        if let Some(probes) = &self.application.probes {
            let probes =
                [("readinessProbe", &probes.readiness_probe), ("livenessProbe", &probes.liveness_probe)];
            for (name, probe) in probes {
                if let Some(probe) = probe {
                    container.insert(name.to_owned(), json!(probe));
                }
            }
        }
        container.into()
    }
}

/// Lists that are empty are left out.
fn put(fields: &mut Map<String, Value>, name: &str, list: Vec<Value>) {
    if !list.is_empty() {
        fields.insert(name.to_owned(), list.into());
    }
}
