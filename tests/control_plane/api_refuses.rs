//! What the API refuses, and that the answer names the field and the rule. The cases are tables under
//! `samples/refused`: a good object, and edits that each break it in one place.

use kube::{
    Client,
    api::{DynamicObject, PostParams},
    core::Request,
};
use rstest::rstest;
use serde::Deserialize;
use serde_json::Value;

use crate::support::{client, name, namespace};

const NAMESPACE: &str = "api-refuses";

/// A good object and the ways to break it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    good: Value,
    bad: Vec<Case>,
}

/// One way to break it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// What is wrong.
    name: String,
    /// In which request it is sent.
    #[serde(default)]
    on: On,
    /// Which field is broken, as a JSON pointer.
    at: String,
    /// What is put there; nothing removes it.
    put: Option<Value>,
    /// Field that the answer must name.
    field: String,
    /// Words that the answer must say about it.
    says: String,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum On {
    #[default]
    Create,
    Update,
    Status,
}

impl Case {
    fn broken(&self, good: &Value) -> Value {
        let mut bad = good.clone();
        let (parent, key) = self.at.rsplit_once('/').expect("a JSON pointer");
        match (bad.pointer_mut(parent), &self.put) {
            (Some(Value::Object(fields)), Some(value)) => _ = fields.insert(key.to_owned(), value.clone()),
            (Some(Value::Object(fields)), None) => {
                assert!(fields.remove(key).is_some(), "{}: nothing at {}", self.name, self.at);
            }
            (Some(Value::Array(items)), Some(value)) => {
                items.insert(key.parse().expect("an index"), value.clone());
            }
            _ => panic!("{}: nothing at {parent}", self.name),
        }
        assert_ne!(&bad, good, "{}: nothing was broken", self.name);
        bad
    }

    /// What is wrong with the answer, if anything.
    fn complaint(&self, answer: &Result<DynamicObject, kube::Error>) -> Option<String> {
        let status = match answer {
            Err(kube::Error::Api(status)) => status,
            Err(error) => return Some(format!("- {}: no answer: {error}", self.name)),
            Ok(_) => return Some(format!("- {}: not refused", self.name)),
        };
        let causes = status.details.iter().flat_map(|details| &details.causes);
        let named =
            causes.clone().any(|cause| cause.field == self.field && cause.message.contains(&self.says));
        // A body that cannot be read at all is refused as a whole.
        let whole = causes.clone().next().is_none()
            && status.message.contains(&self.field)
            && status.message.contains(&self.says);
        (!named && !whole).then(|| format!("- {}: the answer is\n  {}", self.name, status.message))
    }
}

/// Sends objects of one kind without storing them, unless told to.
struct Sender {
    client: Client,
    url: String,
}

impl Sender {
    async fn new(object: &Value) -> Self {
        let client = client().await;
        namespace(&client, NAMESPACE).await;
        let crds = kantor_api::crds();
        let crd = crds.iter().find(|crd| crd.spec.names.kind == object["kind"]).expect("a kind of ours");
        let version = &crd.spec.versions[0].name;
        let place =
            if crd.spec.scope == "Cluster" { String::new() } else { format!("namespaces/{NAMESPACE}/") };
        let url = format!("/apis/{}/{version}/{place}{}", crd.spec.group, crd.spec.names.plural);
        Self { client, url }
    }

    async fn send(&self, on: On, object: &Value, dry_run: bool) -> Result<DynamicObject, kube::Error> {
        let body = object.to_string().into_bytes();
        let params = PostParams { dry_run, ..PostParams::default() };
        let requests = Request::new(&self.url);
        let request = match on {
            On::Create => requests.create(&params, body),
            On::Update => requests.replace(name(object), &params, body),
            On::Status => requests.replace_subresource("status", name(object), &params, body),
        };
        let mut request = request.expect("a valid request");
        let strict = format!("{}&fieldValidation=Strict", request.uri());
        *request.uri_mut() = strict.parse().expect("a valid address");
        self.client.request(request).await
    }
}

async fn check(table: Table) -> Vec<String> {
    let sender = Sender::new(&table.good).await;
    let what = format!("the good {} {}", table.good["kind"], name(&table.good));
    let stored = table.bad.iter().any(|case| case.on != On::Create);
    let mut good = table.good.clone();
    let created =
        sender.send(On::Create, &good, !stored).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    if stored {
        good["metadata"]["resourceVersion"] = created.metadata.resource_version.into();
    }
    let mut complaints = Vec::new();
    for case in &table.bad {
        if case.on != On::Create {
            sender
                .send(case.on, &good, true)
                .await
                .unwrap_or_else(|error| panic!("{what}, unchanged: {error}"));
        }
        let original = if case.on == On::Create { &table.good } else { &good };
        let answer = sender.send(case.on, &case.broken(original), true).await;
        complaints.extend(case.complaint(&answer));
    }
    complaints
}

#[rstest]
#[case::organizations(include_str!("samples/refused/organization.yaml"))]
#[case::projects(include_str!("samples/refused/project.yaml"))]
#[case::components(include_str!("samples/refused/component.yaml"))]
#[case::deployment_tracks(include_str!("samples/refused/deployment_track.yaml"))]
#[case::deployment_pipelines(include_str!("samples/refused/deployment_pipeline.yaml"))]
#[case::environments(include_str!("samples/refused/environment.yaml"))]
#[case::data_planes(include_str!("samples/refused/data_plane.yaml"))]
#[case::configuration_groups(include_str!("samples/refused/configuration_group.yaml"))]
#[case::builds(include_str!("samples/refused/build.yaml"))]
#[case::deployable_artifacts(include_str!("samples/refused/deployable_artifact.yaml"))]
#[case::deployments(include_str!("samples/refused/deployment.yaml"))]
#[case::endpoints(include_str!("samples/refused/endpoint.yaml"))]
#[case::endpoint_policies(include_str!("samples/refused/endpoint_policy.yaml"))]
#[case::releases(include_str!("samples/refused/release.yaml"))]
#[case::hostname_claims(include_str!("samples/refused/hostname_claim.yaml"))]
#[tokio::test]
async fn bad_objects_are_refused_with_the_field_and_the_rule(#[case] tables: &str) {
    let mut complaints = Vec::new();
    for table in serde_saphyr::from_multiple::<Table>(tables).expect("the table can be read") {
        complaints.extend(check(table).await);
    }
    assert!(complaints.is_empty(), "{} bad objects:\n{}", complaints.len(), complaints.join("\n"));
}
