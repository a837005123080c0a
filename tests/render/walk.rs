//! Every property that users can write: what comes of changing it.

use kantor_core::deployment::Rendered;

use super::*;

/// What a change leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// New pods, or a problem that is told.
    Rollout,
    /// Other objects, and the same pods.
    NoRollout,
    /// Nothing at all.
    Nothing,
}

/// Where a change does not lead to new pods. Patterns are beginnings of paths; the longest that fits counts.
const EXCEPTIONS: &[(&str, Effect)] = &[
    ("artifact.configuration.endpointTemplates[]", Effect::NoRollout),
    // Ports of the container, and by which protocol.
    ("artifact.configuration.endpointTemplates[].spec.backendRef.componentRef", Effect::Rollout),
    ("artifact.configuration.endpointTemplates[].spec.backendRef.target", Effect::NoRollout),
    ("artifact.configuration.endpointTemplates[].metadata.labels", Effect::Nothing),
    ("artifact.configuration.endpointTemplates[].metadata.namespace", Effect::Nothing),
    ("artifact.configuration.endpointTemplates[].metadata.finalizers", Effect::Nothing),
    ("artifact.configuration.application.scaling", Effect::NoRollout),
    ("artifact.configuration.application.task", Effect::NoRollout),
    ("artifact.targetArtifact.fromBuildRef.gitRevision", Effect::Nothing),
    ("artifact.targetArtifact.fromImageRef.skipVersionValidation", Effect::Nothing),
    ("deployment.revisionHistoryLimit", Effect::NoRollout),
    ("deployment.configurationOverrides.endpointTemplates", Effect::NoRollout),
    // There is no such template.
    ("deployment.configurationOverrides.endpointTemplates[].metadata.name", Effect::Rollout),
    ("deployment.configurationOverrides.application.scaling", Effect::NoRollout),
    ("deployment.configurationOverrides.application.task", Effect::NoRollout),
];

/// Properties that are there for compatibility, or that only say which of two others counts.
const NOT_IN_CASES: &[&str] = &[
    "configuration.dependencies",
    "configurationOverrides.dependencies",
    "configuration.endpointTemplates[].metadata.finalizers",
    "configuration.endpointTemplates[].metadata.labels",
    "configuration.endpointTemplates[].metadata.namespace",
    "configurationOverrides.endpointTemplates[].metadata.annotations",
    "configurationOverrides.endpointTemplates[].metadata.finalizers",
    "configurationOverrides.endpointTemplates[].metadata.labels",
    "configurationOverrides.endpointTemplates[].metadata.namespace",
    "targetArtifact.fromBuildRef.gitRevision",
    "targetArtifact.fromImageRef.skipVersionValidation",
    "deploymentArtifactRef",
    // Not supported; the case `problems` has it.
    "configuration.application.scaling.s2z",
    "configurationOverrides.application.scaling.s2z",
];

/// Trees whose leaves are Kubernetes' own or the policies of endpoints: they are passed on as they are, so that one leaf
/// stands for all.
const PASSED_ON: &[&str] = &[
    "application.probes.readinessProbe",
    "application.probes.livenessProbe",
    "networkVisibilities",
    "hostnames",
];

fn effect(path: &str) -> Effect {
    let fitting = EXCEPTIONS.iter().filter(|(beginning, _)| path.starts_with(beginning));
    fitting.max_by_key(|(beginning, _)| beginning.len()).map_or(Effect::Rollout, |(_, effect)| *effect)
}

/// The places of all leaves, as JSON pointers, with their paths as in the tables above.
fn leaves(value: &Value, pointer: &str, path: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let escaped = name.replace('~', "~0").replace('/', "~1");
                let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                leaves(field, &format!("{pointer}/{escaped}"), &below, found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                leaves(item, &format!("{pointer}/{index}"), &format!("{path}[]"), found);
            }
        }
        _ => found.push((pointer.to_owned(), path.to_owned())),
    }
}

/// Another value of the same form; none where the value says only which other one counts.
fn changed(path: &str, value: &Value) -> Option<Value> {
    Some(match value {
        Value::Bool(value) => json!(!value),
        Value::Number(number) => json!(number.as_i64()? + 1),
        // The first says which of two others counts, the second is looked up before anything is rendered.
        Value::String(_) if path.ends_with("backendRef.type") || path.ends_with("fromBuildRef.name") => {
            return None;
        }
        // TCP for all but UDP: the other way round is another port of the container.
        Value::String(text) if path.ends_with("spec.type") => {
            json!(if text == "HTTP" { "REST" } else { "HTTP" })
        }
        Value::String(text) => json!(format!("{text}x")),
        _ => return None,
    })
}

fn templates(rendered: &Rendered) -> Vec<Value> {
    let own = rendered.own.iter().map(|object| serde_json::to_value(object).unwrap());
    own.filter_map(|object| {
        let paths = ["/spec/template", "/spec/jobTemplate/spec/template"];
        paths.iter().find_map(|path| object.pointer(path).cloned())
    })
    .collect()
}

#[test]
fn every_property_that_should_matter_does_and_none_rolls_pods_for_nothing() {
    let mut wrong = vec![];
    for name in
        ["service_full.yaml", "overrides.yaml", "scheduled_task.yaml", "manual_task.yaml", "scaled.yaml"]
    {
        let text = fs::read_to_string(folder("cases").join(name)).unwrap();
        let raw: Value = serde_saphyr::from_str(&text).unwrap();
        let render = |raw: &Value| serde_json::from_value::<Case>(raw.clone()).unwrap().render();
        let before = render(&raw).unwrap();
        let mut found = vec![];
        // What is overridden does not show: other cases are about the artifact.
        let part = if raw.pointer("/deployment/configurationOverrides").is_some() {
            "deployment"
        } else {
            "artifact"
        };
        leaves(&raw[part], &format!("/{part}"), part, &mut found);
        for (pointer, path) in found {
            let mut other = raw.clone();
            let leaf = other.pointer_mut(&pointer).unwrap();
            let udp = path.ends_with("spec.type") && *leaf == "UDP";
            let Some(value) = changed(&path, leaf) else { continue };
            *leaf = value;
            let seen = match render(&other) {
                Err(_) => Effect::Rollout,
                Ok(after) if templates(&after) != templates(&before) => Effect::Rollout,
                Ok(after) if after != before => Effect::NoRollout,
                Ok(_) => Effect::Nothing,
            };
            let expected = if udp { Effect::Rollout } else { effect(&path) };
            if seen != expected {
                wrong.push(format!("{name} {pointer}: {seen:?}, not {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The properties of a schema, down to the leaves.
fn properties(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    if PASSED_ON.iter().any(|passed_on| path.ends_with(passed_on)) {
        found.insert(path.to_owned());
        return;
    }
    if let Some(items) = schema.get("items") {
        return properties(items, &format!("{path}[]"), found);
    }
    match schema.get("properties").and_then(Value::as_object) {
        Some(fields) => {
            for (name, field) in fields {
                let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                properties(field, &below, found);
            }
        }
        None => drop(found.insert(path.to_owned())),
    }
}

#[test]
fn the_cases_use_every_property_of_artifacts_and_deployments() {
    let mut known = BTreeSet::new();
    for (file, _) in [("deployableartifacts", "artifact"), ("deployments", "deployment")] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("crds/openchoreo.dev_{file}.yaml"));
        let crd: Value = serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
        properties(crd.pointer(spec).unwrap(), "", &mut known);
    }
    let mut used = vec![];
    for (name, text) in files("cases") {
        let raw: Value = serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        for part in ["artifact", "deployment"] {
            if let Some(value) = raw.get(part) {
                leaves(value, "", "", &mut used);
            }
        }
    }
    let used: BTreeSet<String> = used.into_iter().map(|(_, path)| path).collect();
    let covered = |property: &String| {
        NOT_IN_CASES.iter().any(|excepted| property.starts_with(excepted))
            || used.iter().any(|path| path.starts_with(property.as_str()))
    };
    let missing: Vec<&String> = known.iter().filter(|property| !covered(property)).collect();
    assert!(missing.is_empty(), "no case uses {missing:#?}");
}
