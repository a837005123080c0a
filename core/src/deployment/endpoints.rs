//! Endpoints that a Deployment has in the control plane.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kantor_api::{
    Deployment, Endpoint, annotations,
    deployable_artifact::EndpointTemplate,
    labels,
    names::{self, NameKind},
};
use kube_core::{Resource, ResourceExt};

use super::configuration::template_name;
use crate::{hierarchy::logical_name, release::label_value};

/// Annotations that speak to Kantor about the object that they are on. Who takes over a Deployment takes over its routes.
const OF_ONE_OBJECT: [&str; 4] =
    [annotations::PAUSED, annotations::DELETION_POLICY, annotations::REPLACE, annotations::INTENT_HASH];

/// What kubectl notes on an object about that object.
const OF_KUBECTL: &str = "kubectl.kubernetes.io/";

/// One Endpoint per template, by name.
pub(super) fn endpoints(deployment: &Deployment, templates: &[EndpointTemplate]) -> Vec<Endpoint> {
    let mut endpoints: Vec<Endpoint> =
        templates.iter().map(|template| endpoint(deployment, template)).collect();
    endpoints.sort_by_cached_key(ResourceExt::name_any);
    endpoints
}

fn endpoint(deployment: &Deployment, template: &EndpointTemplate) -> Endpoint {
    let name = template_name(&template.metadata);
    let mut endpoint = Endpoint::new(
        &names::generate(NameKind::Object, &[&deployment.name_any(), name]),
        template.spec.clone(),
    );
    let mut labels = deployment.labels().clone();
    labels.insert(labels::DEPLOYMENT.to_owned(), label_value(&logical_name(deployment)));
    labels.insert(labels::NAME.to_owned(), label_value(name));
    let annotations = annotations_of(deployment, template);
    endpoint.metadata.namespace = deployment.namespace();
    endpoint.metadata.labels = Some(labels);
    endpoint.metadata.annotations = (!annotations.is_empty()).then_some(annotations);
    endpoint.metadata.owner_references = deployment
        .controller_owner_ref(&())
        .map(|owner| vec![OwnerReference { block_owner_deletion: Some(true), ..owner }]);
    endpoint
}

fn annotations_of(deployment: &Deployment, template: &EndpointTemplate) -> BTreeMap<String, String> {
    let mut annotations = deployment.annotations().clone();
    annotations.retain(|key, _| !key.starts_with(OF_KUBECTL) && !OF_ONE_OBJECT.contains(&key.as_str()));
    for key in [annotations::DISPLAY_NAME, annotations::DESCRIPTION] {
        if let Some(text) = template.metadata.annotations.get(key).filter(|text| !text.is_empty()) {
            annotations.insert(key.to_owned(), text.clone());
        }
    }
    annotations
}
